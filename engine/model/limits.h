// Caps on a network's demands, so a hostile file cannot choose our memory or time. Generous: RRDB,
// the largest network in use, has 16.7 M weights and 58,000 activations a pixel.
#pragma once

#include <cstddef>
#include <cstdint>

namespace upscaled {

inline constexpr int kMaxJsonDepth = 6;  // layers, layer, "weight" and its four axes but the last
inline constexpr size_t kMaxJsonValues = size_t{4} << 20;  // parsed, each takes up to 100 bytes
inline constexpr size_t kMaxOnnxBytes = size_t{512} << 20;
inline constexpr size_t kMaxOnnxFields = size_t{4} << 20;    // parsed, each takes up to 150 bytes
inline constexpr int kMaxOnnxNodes = 65536;                  // exporters spell a layer in up to 30
inline constexpr int64_t kMaxOnnxFolded = int64_t{1} << 24;  // numbers computed while reading
inline constexpr size_t kMaxTensorFileBytes = size_t{512} << 20;  // .safetensors, .pth
inline constexpr size_t kMaxSafetensorsHeaderBytes = size_t{16} << 20;
inline constexpr size_t kMaxPickleBytes = size_t{16} << 20;
inline constexpr size_t kMaxPickleValues = size_t{1} << 18;  // each takes up to 100 bytes
inline constexpr size_t kMaxPickleOpcodes = size_t{1} << 20;
inline constexpr size_t kMaxZipEntries = 65536;  // each takes up to 300 bytes
inline constexpr size_t kMaxTensors = 65536;     // of a file, each takes up to 300 bytes
inline constexpr size_t kMaxTensorAxes = 8;
inline constexpr size_t kMaxLayers = 4096;
inline constexpr int64_t kMaxWeights = 100'000'000;
inline constexpr int kMaxActivationsPerPixel = 500'000;  // floats per source pixel, all layers
inline constexpr int kMaxChannels = 8192;
inline constexpr size_t kMaxConcatInputs = 64;
inline constexpr int kMaxKernelPx = 31;
inline constexpr int kMaxWindowPx = 32;  // of attention
inline constexpr int kMaxFactor = 16;    // strides and resize factors
inline constexpr int kMaxScale = 16;     // the network's, and that of any layer inside it
inline constexpr int kMaxPadPx = 1024;   // replicated border, crops
inline constexpr int kMinCellPx = 128;   // a card's cell_px
inline constexpr int kMaxCellPx = 1024;
inline constexpr int kMaxPeriodPx = 64;  // common multiple of align_px and the strides

}  // namespace upscaled
