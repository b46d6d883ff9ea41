// Published networks: their architectures, and what they do to a picture before they look at it.
#pragma once

#include <lockstep/models/preprocessing.h>
#include <lockstep/models/registry.h>
#include <lockstep/models/resnet.h>
#include <lockstep/models/resnet_cifar.h>
#include <lockstep/models/squeezenet.h>
