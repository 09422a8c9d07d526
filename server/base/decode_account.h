// The payer of an image's decoder.
#pragma once

#include <string>

#include "absl/time/time.h"

namespace upscaled::server {

struct DecodeAccount {
  std::string client;                  // shares the processor with other clients' decoders
  double weight = 1;                   // of its share, relative to others'
  absl::Duration* cpu_time = nullptr;  // grows by the decoder's processor time when that ends
};

}  // namespace upscaled::server
