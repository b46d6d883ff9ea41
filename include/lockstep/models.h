// Networks: published ones, with what they do to a picture before they look at it, and two to train.
#pragma once

#include <lockstep/models/beam_search.h>
#include <lockstep/models/clip.h>
#include <lockstep/models/constraint.h>
#include <lockstep/models/convnext.h>
#include <lockstep/models/dinov2.h>
#include <lockstep/models/efficientnet.h>
#include <lockstep/models/embed_text.h>
#include <lockstep/models/generate.h>
#include <lockstep/models/language.h>
#include <lockstep/models/lenet.h>
#include <lockstep/models/mlp.h>
#include <lockstep/models/mobilenet.h>
#include <lockstep/models/perplexity.h>
#include <lockstep/models/preprocessing.h>
#include <lockstep/models/registry.h>
#include <lockstep/models/regnet.h>
#include <lockstep/models/resnet.h>
#include <lockstep/models/resnet_cifar.h>
#include <lockstep/models/sam.h>
#include <lockstep/models/sam_masks.h>
#include <lockstep/models/squeezenet.h>
#include <lockstep/models/vgg.h>
#include <lockstep/models/vision_transformer.h>
#include <lockstep/models/yolo.h>
