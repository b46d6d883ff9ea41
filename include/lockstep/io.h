// Files: tensors (safetensors, PyTorch, NumPy), ONNX models, images (PNG, JPEG), CIFAR-10 records, idx arrays, sounds (WAV), and downloads of them.
#pragma once

#include <lockstep/io/cifar.h>
#include <lockstep/io/gguf.h>
#include <lockstep/io/hub.h>
#include <lockstep/io/idx.h>
#include <lockstep/io/image.h>
#include <lockstep/io/metadata.h>
#include <lockstep/io/numpy.h>
#include <lockstep/io/onnx.h>
#include <lockstep/io/onnx_export.h>
#include <lockstep/io/pytorch.h>
#include <lockstep/io/safetensors.h>
#include <lockstep/io/tensor_file.h>
#include <lockstep/io/wav.h>
#include <lockstep/io/weights.h>
