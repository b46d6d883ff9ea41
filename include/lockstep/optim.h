// Optimisers, learning-rate schedules, and what belongs to training steps.
#pragma once

#include <lockstep/optim/adam.h>
#include <lockstep/optim/optimizer.h>
#include <lockstep/optim/sgd.h>
