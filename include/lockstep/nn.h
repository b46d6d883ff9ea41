// Layers and the modules that hold them.
#pragma once

#include <lockstep/nn/activation.h>
#include <lockstep/nn/cell.h>
#include <lockstep/nn/conv.h>
#include <lockstep/nn/dropout.h>
#include <lockstep/nn/embedding.h>
#include <lockstep/nn/image.h>
#include <lockstep/nn/init.h>
#include <lockstep/nn/linear.h>
#include <lockstep/nn/loss.h>
#include <lockstep/nn/module.h>
#include <lockstep/nn/module_dict.h>
#include <lockstep/nn/normalization.h>
#include <lockstep/nn/pooling.h>
#include <lockstep/nn/recurrent.h>
#include <lockstep/nn/replayed.h>
#include <lockstep/nn/sequential.h>
#include <lockstep/nn/stats.h>
#include <lockstep/nn/transformer.h>
