// How large a program's tiles should be.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/backends/cpu/kernels/isa.h"
#include "engine/backends/cpu/program.h"
#include "engine/base/geometry.h"
#include "engine/graph/inner_tile.h"
#include "engine/graph/kernel_choice.h"

namespace upscaled::cpu {

inline constexpr Size kSmallestTile = {120, 72};

// The workspace of the run that needs most, in bytes.
size_t WorkspaceOf(const Program& program, Size image, const Rect& tile);
size_t WorkspaceOf(const Program& program, const InnerTile& tile);

// Sizes worth using, the one that should be fastest first, on a core with so large a second-level
// cache. RESOURCE_EXHAUSTED when the smallest needs more than kMaxWorkspaceBytes.
//
// Tiles take no more than half a second and little memory, if that can be. Among the largest such
// tile and narrower ones, no larger, wide ones compute less around themselves and read the weights
// less often; of narrow ones, rows that a layer has written are still in cache when the next one
// reads them.
absl::StatusOr<std::vector<Size>> RankTiles(const Program& program, size_t cache_bytes);

// One of `tiles` for a program of `network`: what `chooser` (may be null) says, or the first.
Size ChooseTile(const Network& network, const Program& program, Isa isa, std::vector<Size> tiles,
                KernelChooser* chooser);

}  // namespace upscaled::cpu
