// Data: data sets and where they come from, what is done to pictures, and the loader that makes batches of them.
#pragma once

#include <lockstep/data/dataset.h>
#include <lockstep/data/digits.h>
#include <lockstep/data/loader.h>
#include <lockstep/data/local_batches.h>
#include <lockstep/data/mix.h>
#include <lockstep/data/readers.h>
#include <lockstep/data/transforms.h>
