// Plain arguments for functions compiled once per instruction set. Include nothing with inline
// functions: the linker may keep a copy with instructions few machines have.
#pragma once

#include <cstddef>
#include <cstdint>

namespace upscaled::cpu {

// Channels in one plane of a blocked tensor, on every instruction set: one AVX-512 vector, a cache
// line of floats.
inline constexpr int kPlaneChannels = 16;

// Channels in one plane of halves: a cache line too, so pixels lie as in planes of floats.
inline constexpr int kHalfPlaneChannels = 32;
inline constexpr int kPlaneFloats = 16;  // size of a pixel in any plane

// The operations on a sum before it is stored; arrays hold one value per channel, padded with
// zeros.
struct EpilogueArgs {
  enum Kind : uint8_t {
    kNone,
    kSlope,  // v < 0 ? v * slope : v  -- ReLU, LeakyReLU, PReLU
    kClip,
    kSigmoid,  // and the curves that follow: see curves.inc
    kSilu,
    kMish,
    kGelu,
    kGeluTanh,
    kSoftplus,
  };
  Kind kind = kNone;
  const float* bias = nullptr;
  const float* slope = nullptr;
  float clip_min = 0;
  float clip_max = 0;
};

// One row of blocks of a Winograd convolution. For 16-bit kernels tensors hold halves, weights
// halves or integers.
struct WinogradArgs {
  static constexpr int kMaxPoints = 8;
  const float* src_rows[kMaxPoints];  // plane 0, at the first block's first column
  size_t src_plane_stride;
  int src_planes;
  int src_channels;                // with weights; a multiple of the variant's
  bool prefetch_src;               // fp32: the rows exceed their share of the core's cache
  float* dst_rows[kMaxPoints];     // likewise
  int dst_first_row, dst_end_row;  // those to store
  int dst_first_px, dst_end_px;    // the columns to store
  size_t dst_plane_stride;
  int dst_channels;  // whole planes
  bool dst_half;     // integers alone: else one plane of floats
  // fp32: added to the activated sums if not null; as dst_rows, of another blocked tensor.
  const float* residual_rows[kMaxPoints];
  size_t residual_plane_stride;
  const float* weights;
  // Integers only: the factors of the transformed input, [point][channel of the planes], and of the
  // sums, [block of out_channels][point][channel of the block].
  const float* src_scale;
  const float* dst_scale;
  EpilogueArgs epilogue;
  float* scratch;
};

// One way to compute it: `out_channels` output channels at a time.
struct WinogradVariant {
  void (*run)(const WinogradArgs& args);
  size_t (*scratch_floats)(int src_planes);
  int out_channels;
  int in_multiple = kPlaneChannels;   // input channels are padded to a multiple
  int out_multiple = kPlaneChannels;  // output channels likewise; zeros fill their last plane
  bool half = false;
};

// The variants of one algorithm, by the number of vectors of output channels; null where a plane is
// an even number of vectors.
struct WinogradVariants {
  WinogradVariant one;
  WinogradVariant odd;
  WinogradVariant even;
  WinogradVariant even_few;   // half as many blocks at a time
  WinogradVariant even_many;  // half as many again
};

// The points of F(4x4, 3x3) in 16 bits besides 0 and infinity: +- these.
inline constexpr double kWinograd16BitPoints[] = {0.6875, 1.5};

// In winograd_fp16.cc (narrow: for at most 32 output channels).
extern const WinogradVariant kWinogradF4Fp16;
extern const WinogradVariant kWinogradF4Fp16Narrow;

// In winograd_vnni.cc: by the number of vectors of 16 output channels at a time, less one.
extern const WinogradVariant kWinogradF4Vnni[3];

// The largest |V| per point (x * 6 + y) and channel of a block of one plane of floats: raises
// largest[36][16] to it. `rows`: of the block, as WinogradArgs::src_rows; at `offset` from them.
void MeasureF4Points(const float* const* rows, size_t offset, float* largest);

// One row of output of a direct convolution.
struct DirectArgs {
  static constexpr int kMaxKernel = 31;
  const float* src_rows[kMaxKernel];  // plane 0, at the first column that output 0 reads
  int src_planes;
  int src_channels;         // per plane
  int last_plane_channels;  // of planes of 16: those to read of the last one, a multiple of 4
  int src_pixel_stride;     // floats
  size_t src_plane_stride;
  int kernel_px;
  int stride_px;
  float* dst_row;           // plane 0, at the first output
  int dst_channels;         // to store: a multiple of 16 when blocked
  int dst_pixel_stride;     // floats from one output to the next
  size_t dst_plane_stride;  // 0 when interleaved
  // Added to the activated sums if not null: as dst_row, of a blocked tensor.
  const float* residual_row;
  size_t residual_plane_stride;
  const float* residual_factors;  // if not null: one for each of its channels
  size_t residual_factor_plane_stride;
  int width_px;
  const float* weights;
  EpilogueArgs epilogue;
};

// `out_vectors` vectors of output channels of `tile_px` pixels at a time.
struct DirectVariant {
  void (*run)(const DirectArgs& args);
  int out_vectors;
  int tile_px;
  bool half_weights = false;
};

// By the number of vectors at a time, less one; fewer where registers are few.
struct DirectVariants {
  static constexpr int kMaxVectors = 3;
  DirectVariant blocked[kMaxVectors];     // blocked source, stride 1
  DirectVariant blocked_s2[kMaxVectors];  // blocked source, stride 2
  DirectVariant rgb[kMaxVectors];         // interleaved source of 3 channels, stride 1
  DirectVariant any;
};

// One row of output of a depthwise convolution between blocked tensors.
struct DepthwiseArgs {
  static constexpr int kMaxKernel = 31;
  const float* src_rows[kMaxKernel];  // plane 0, at the first column that output 0 reads
  size_t src_plane_stride;
  int planes;
  int kernel_px;
  int stride_px;
  float* dst_row;  // plane 0, at the first output
  size_t dst_plane_stride;
  int width_px;
  const float* weights;
  EpilogueArgs epilogue;
};

// Pixels of a row, each to be normalised over its channels; between tensors of one layout.
struct PixelNormArgs {
  const float* src_row;  // plane 0, at the first pixel
  size_t src_plane_stride;
  float* dst_row;
  size_t dst_plane_stride;
  int planes;
  int channels;
  int share;  // channels that are normalised together
  int width_px;
  // One for each channel of the planes, zeros where a layer has none.
  const float* weights;
  const float* bias;
  const float* last_plane;  // of the last plane's channels: 1, or 0 where there is none
  float epsilon;
  bool centred;
  float* scratch;  // of a pixel with several shares: its planes and one more
};

// One pixel of some channels, between four others.
struct SampleArgs {
  const float *top_left, *top_right, *bottom_left, *bottom_right;  // plane 0
  float weight_x, weight_y;  // of the right ones, of those at the bottom
  float* dst;                // plane 0
  size_t src_plane_stride, dst_plane_stride;
  int first_plane, planes;
};

// One window of attention, all heads. A token is the key and the value of a pixel seen by the
// window's queries, zeros outside the layer.
struct WindowAttentionArgs {
  static constexpr int kMaxQueriesAtOnce = 64;
  static constexpr float kAbsent = -1e30f;  // its exponential is zero next to any score

  float* columns;  // [channel][query_stride]: queries, in whose place the results are stored
  int query_count;
  int query_stride;            // a multiple of 16
  const float* const* tokens;  // [token_count]: queries, keys, then values, of all heads
  size_t token_plane_stride;   // from 16 of a token's channels to the next
  int token_count;
  int heads;
  int depth;            // channels of a head
  const float* bias;    // [head][token][query_stride]
  const float* absent;  // [token]: added to the scores, kAbsent if a key does not count
  float* scores;        // scratch: [token_count][kMaxQueriesAtOnce]
};

struct WindowAttentionFunctions {
  // dst[column][row] = src[row][column]; `rows`: a multiple of 4, `columns`: of 16.
  void (*transpose)(const float* src, size_t src_stride, int rows, int columns, float* dst,
                    size_t dst_stride);
  void (*attend)(const WindowAttentionArgs& args);
};

// One pixel's products for attention among channels.
struct ChannelProductsArgs {
  const float* pixel;  // queries, keys; 16 more values can be read
  int channels;        // of the queries, and of the keys
  int depth;           // of a head
  float* dst;          // [query][key of its head], then all squares; 16 more may be overwritten
};

// One pixel's products, added to the sums of a part of the layer.
struct ChannelSumsArgs {
  const float* pixel;  // queries, keys; 16 more values can be read
  int channels;        // of the queries, and of the keys
  int depth;           // of a head
  int row_stride;      // a multiple of 16
  float* products;     // [query][row_stride]: with the keys of its head, and garbage behind them
  float* squares;      // of queries and keys; 16 more may be overwritten
};

// Some pixels of a row, one plane of results: sums of some channels' values.
struct ChannelMixArgs {
  const float* values;  // [pixel][value_stride]
  int value_stride, value_count;
  int width_px;
  const float* weights;  // [value][channel of the plane]
  float* dst_row;
};

struct ChannelAttentionFunctions {
  void (*multiply)(const ChannelProductsArgs& args);
  void (*add)(const ChannelSumsArgs& args);
  void (*softmax)(float* row, int count);  // behind `count` lie very negative values, up to 16
  void (*mix)(const ChannelMixArgs& args);
};

struct DepthwiseVariants {
  void (*plain)(const DepthwiseArgs& args);  // stride 1
  void (*strided)(const DepthwiseArgs& args);
};

// In direct_fp16.cc; vectors are of 32 channels. `any` and `any_image`: of any stride.
struct DirectFp16Variants {
  DirectVariant blocked[2];     // by the number of vectors at a time, less one; stride 1
  DirectVariant blocked_s2[2];  // stride 2
  DirectVariant any;
  DirectVariant rgb[2];  // for at most 16 channels, and for more; source as DirectVariants::rgb
  DirectVariant any_image;
};
extern const DirectFp16Variants kDirectFp16Variants;

// Outputs side by side, from sums of products of 16-bit integers. Each reads from its cell of the
// source on; cells follow each other, as wide as the variant says.
struct DirectInt16Args {
  const int16_t* src;  // the first cell
  // A sum is over runs of this many pairs of values, at these places from its cell; `runs_per_sum`
  // of them are added up in integers.
  const int* runs;
  int run_count;
  int run_pairs;
  int runs_per_sum;
  const int16_t* weights;     // [group of outputs][run][pair][output of the group][2]
  const float* scales;        // what the sums are: [group of outputs][sum][output of the group]
  float* dst_row;             // plane 0, at the first output
  int dst_channels;           // to store: a multiple of 16 when blocked
  int dst_pixel_stride;       // floats from one output to the next
  size_t dst_plane_stride;    // 0: interleaved floats, else halves
  const float* residual_row;  // as DirectArgs's, of halves
  size_t residual_plane_stride;
  const float* residual_factors;
  size_t residual_factor_plane_stride;
  int width_px;
  EpilogueArgs epilogue;
};

// In direct_vnni.cc.
struct DirectInt16Variant {
  void (*run)(const DirectInt16Args& args);
  int out_vectors;  // of 16 outputs, at a time
  int chunk_px;     // outputs that fill register tiles
};
// By out_vectors, less one: for cells of 32 values, and of an image's three.
extern const DirectInt16Variant kDirectVnni[3];
extern const DirectInt16Variant kDirectVnniRgb[3];

// `count` pixels of a plane of halves, `stride_px` apart, times a scale each channel, as integers
// (channels placed as Int16PlaceOf says). Whether any was clipped; it is then +-32767 or more.
bool QuantizeHalves(const float* halves, int stride_px, int count, const float* scales,
                    int16_t* dst);
// The same for floats, in order; up to 15 values behind them are overwritten.
bool QuantizeFloats(const float* floats, int count, float scale, int16_t* dst);

// 16 channels of rows of halves, and their factors: halves or, if not null, one factor each.
struct MultiplyArgs {
  const float* a;
  const float* b;
  const float* factors;
  float* dst;
  EpilogueArgs epilogue;
};

// Source pixels of a shuffle to RGB, in planes from `src` on, where the row's first value lies, to
// one row of the image. If `added` is not null, one of its pixels is added to all results of a
// source pixel.
using RgbShuffle = void (*)(const float* src, size_t plane_stride, const float* added, float* dst,
                            size_t pixels);
struct RgbShuffles {
  RgbShuffle by_2;
  RgbShuffle by_4;
};

// `count` samples of an image and as many floats of 0 to 1.
template <typename Sample>
struct SampleConversion {
  void (*from)(const Sample* src, size_t count, float* dst);
  // The nearest sample, of two the higher; NaN is 0. Floats are copied.
  void (*to)(const float* src, size_t count, Sample* dst);
};
struct SampleConversions {
  SampleConversion<uint8_t> u8;
  SampleConversion<uint16_t> u16;
  SampleConversion<float> f32;
};

// `pixels` of a plane of halves, and of the one or (`high` not null) two planes of floats with its
// channels; missing ones are zero.
struct ConvertFunctions {
  void (*to_half)(const float* low, const float* high, float* half, size_t pixels);
  void (*to_float)(const float* half, float* low, float* high, size_t pixels);
};

}  // namespace upscaled::cpu
