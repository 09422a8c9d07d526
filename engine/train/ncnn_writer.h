// A network in ncnn's format, as engine/model's loader reads it back: fp32, to the bit.
#pragma once

#include <string>

#include "engine/model/network.h"

namespace upscaled::train {

struct NcnnModel {
  std::string param;  // text
  std::string bin;
};

// `network` consists of what TrainedNetwork takes.
NcnnModel WriteNcnn(const Network& network);

}  // namespace upscaled::train
