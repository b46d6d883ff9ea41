// Training: the loop, its logs and plots, and checkpoints.
#pragma once

#include <lockstep/train/checkpoint.h>
#include <lockstep/train/log.h>
#include <lockstep/train/plot.h>
#include <lockstep/train/progress.h>
#include <lockstep/train/text_examples.h>
#include <lockstep/train/trainer.h>
