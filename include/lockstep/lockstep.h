// Everything: `#include <lockstep/lockstep.h>` and `namespace ls = lockstep;`.
#pragma once

#include <lockstep/autograd.h>
#include <lockstep/check.h>
#include <lockstep/check_finite.h>
#include <lockstep/data.h>
#include <lockstep/default_device.h>
#include <lockstep/device.h>
#include <lockstep/dlpack.h>
#include <lockstep/dtype.h>
#include <lockstep/error.h>
#include <lockstep/io.h>
#include <lockstep/linalg.h>
#include <lockstep/memory.h>
#include <lockstep/models.h>
#include <lockstep/nn.h>
#include <lockstep/ops.h>
#include <lockstep/optim.h>
#include <lockstep/random.h>
#include <lockstep/shape.h>
#include <lockstep/tensor.h>
#include <lockstep/text/tokenizer.h>
#include <lockstep/threads.h>
#include <lockstep/train.h>
#include <lockstep/version.h>
#include <lockstep/work.h>
