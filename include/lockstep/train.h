// Training: what a run needs around its model, data and optimiser.
#pragma once

#include <lockstep/train/checkpoint.h>
