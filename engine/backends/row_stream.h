// An image as rows of its full width that flow through all layers of a network, in slices. Each
// layer keeps the rows above that it needs from slice to slice, so that nothing is computed twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/graph/tile_plan.h"

namespace upscaled {

// The memory that a stream of rows takes.
struct RowStreamNeed {
  size_t bytes = 0;          // the image's own, from its first slice to its last
  size_t scratch_bytes = 0;  // of each Stream that runs slices of it
  // Whether all of the source is read before the first row of the result is there.
  bool sees_all = false;
};

// The parts of an image that a stream computes, where others are copied.
struct RowParts {
  // Parts of the band at hand and of those below, as far as they are known. The stream computes all
  // that they depend on.
  std::vector<std::shared_ptr<const TilePlan>> tiles;
  // The rows below, of which nothing is known: all that they depend on is computed. Null at the
  // image's end.
  std::shared_ptr<const TilePlan> unknown;
};

// Made by an executable for one image. Its bands are rows of the result from the top to the bottom,
// each given to as many runs as it takes. Used by one thread at a time, any of them.
class RowStream {
 public:
  // `maker`: the executable, the only one that may run it; compared, never used.
  explicit RowStream(const void* maker) : maker_(maker) {}
  RowStream(const RowStream&) = delete;
  RowStream& operator=(const RowStream&) = delete;
  virtual ~RowStream() = default;

  // Bands end at multiples of this many rows of the result, or at its end.
  static constexpr int kBandMultiple = 4;

  const void* maker() const { return maker_; }
  // Plans the next run: it goes on until the result's rows above `bottom` are written, or another
  // step would exceed `max_cost`; one step at least. `parts`: computed of the image, null for all
  // of it; they stay until the slice has run. Returns its cost in multiply-adds (at least 1), or 0
  // if those rows are written.
  virtual int64_t PlanSlice(int bottom, int64_t max_cost, const RowParts* parts = nullptr) = 0;

 private:
  const void* const maker_;
};

// A run's part of a stream.
struct RowSlice {
  RowStream* stream = nullptr;  // borrowed; null: the task is a tile by itself
  int64_t cost = 0;             // PlanSlice's
  int64_t source_px = 0;        // the slice's share of the image
};

}  // namespace upscaled
