// Large images for networks with sums over the image (global poolings, group norms), or with access
// to any pixel of a layer (ReadsAnywhere): the image is cut into overlapping cells, the network
// sees each cell as an image of its own, and the results are blended. Sums stay inside a cell, so
// time grows with the image's area and memory with its width. The cells are a property of the model
// and part of its result: where they lie depends on nothing but the image's size and
// Network::cell_px.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "engine/base/geometry.h"
#include "engine/model/network.h"

namespace upscaled {

// Networks with sums and without access to any pixel see an image whole if the values of its layers
// needed at one time take no more than this. It is part of the result, hence the same for all
// servers and devices. It holds 1024 x 1024 pixels of RealPLKSR, and 1.9 megapixels of cunet.
inline constexpr size_t kMaxWholeBytes = size_t{1} << 30;

// Cells along one axis of an image. All have one length. The first begins at 0, the next ones every
// cell_px - kOverlapPx pixels, and the last one ends where the image does.
class CellAxis {
 public:
  // Neighbours have this much in common, the last two at least. Where a cell sees nothing of its
  // surroundings, its own border stands for them: so the blend leaves out the outermost pixels.
  static constexpr int kOverlapPx = 32;
  static constexpr int kBlendPx = 16;  // in the middle of what two neighbours have in common

  // `cell_px`: at least 2 * kOverlapPx.
  CellAxis(int length, int cell_px);

  int count() const { return count_; }
  int length() const { return length_; }  // of the axis
  int cell_length() const { return cell_; }
  // The first pixel seen by cell `i`.
  int Begin(int i) const;
  // The first pixel with a part from cell `i`. For kBlendPx pixels the cell before it gives the
  // other part; 0 of the first cell, the axis' length of the one after the last.
  int ResultBegin(int i) const;

 private:
  int length_;
  int cell_;
  int count_;
};

// The cells of an image, numbered row by row.
struct CellLattice {
  CellLattice(Size image, int cell_px) : x(image.width, cell_px), y(image.height, cell_px) {}

  int64_t count() const { return int64_t{x.count()} * y.count(); }
  Size cell() const { return {x.cell_length(), y.cell_length()}; }

  CellAxis x, y;
};

// Bytes of the layers' values needed at one time, as floats, for an image of this size that is
// computed whole and layer by layer.
double WholeImageBytes(const Network& network, Size image);

// The cells for an image of this size; none if the network sees it whole.
std::optional<CellLattice> CellsOf(const Network& network, Size image,
                                   size_t max_whole_bytes = kMaxWholeBytes);
// The reason why, for users: a predicate of "the model".
const char* WhyCells(const Network& network);

}  // namespace upscaled
