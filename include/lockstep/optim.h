// Optimisers, learning-rate schedules, and what belongs to training steps.
#pragma once

#include <lockstep/optim/adafactor.h>
#include <lockstep/optim/adagrad.h>
#include <lockstep/optim/adam.h>
#include <lockstep/optim/clip.h>
#include <lockstep/optim/ema.h>
#include <lockstep/optim/grad_scaler.h>
#include <lockstep/optim/lbfgs.h>
#include <lockstep/optim/lion.h>
#include <lockstep/optim/nadam.h>
#include <lockstep/optim/optimizer.h>
#include <lockstep/optim/plateau.h>
#include <lockstep/optim/radam.h>
#include <lockstep/optim/rmsprop.h>
#include <lockstep/optim/schedule.h>
#include <lockstep/optim/sgd.h>
