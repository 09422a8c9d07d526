// The name of a result, known before anything is computed: the hash of all inputs of its bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/geometry.h"
#include "engine/image/alpha.h"
#include "engine/image/bilateral.h"
#include "engine/image/codec.h"
#include "engine/image/image.h"
#include "engine/model/precision.h"
#include "server/results/digest.h"

namespace upscaled::server {

// A request in canonical form: after its defaults, sizes and passes were worked out from the
// source, so equivalent options are equal. It leaves out everything without an effect on the bytes
// (tiles, ids, threads).
struct ResultParts {
  std::string tenant;            // who asks, and shares with nobody else; empty: all share
  Digest source;                 // of the encoded source's bytes
  std::vector<Digest> networks;  // of the passes, in order: NetworkDigests
  int frame = 1;                 // of the source, from 1; 0: all of them
  bool frame_is_asked = false;   // of a source with more: no warning tells of the others
  Rect part;                     // of the source, which the result shows
  Size result;
  std::optional<BilateralOptions> prefilter;
  bool tta = false;
  bool seamless = false;
  EncodeOptions encode;  // of which format and that format's own options count
  SampleType sample_type = SampleType::kU8;
  Precision precision = Precision::kExact;
  std::optional<AlphaMethod> alpha;
  std::optional<AlphaColour> alpha_colour;
  std::optional<bool> keep_colours;
  MetadataPolicy metadata = MetadataPolicy::kKeep;
  bool fill_damage = false;
  std::vector<std::string> warnings;  // of what was asked for: they come with the bytes
};

// The arithmetic without the networks' weights: equal for processes with equal bytes.
struct EngineFingerprint {
  std::string software;  // version and build of the server
  std::string image;     // ImageArithmetic: codecs' versions, instruction sets of the stages
  std::string tuning;    // Tuner::Choices; empty: kernels as shipped
  std::string device;    // Device::arithmetic; empty: no network runs
};

// All but the arithmetic, for requests equal on any device.
Digest RequestKey(const ResultParts& parts);

// 64 hexadecimal digits: the strong ETag of the result, without quotes.
std::string ResultName(const Digest& request_key, const EngineFingerprint& engine);

}  // namespace upscaled::server
