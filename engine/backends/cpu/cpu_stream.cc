#include "engine/backends/cpu/cpu_stream.h"

#include <new>

#include "absl/strings/str_cat.h"
#include "engine/backends/cpu/cpu_executable.h"
#include "engine/backends/cpu/run_tile.h"
#include "engine/base/status_macros.h"

namespace upscaled::cpu {

absl::Status CpuStream::Run(const Executable& executable, std::span<const TileTask> tiles) {
  const Program& program = static_cast<const CpuExecutable&>(executable).program();
  for (const TileTask& task : tiles) {
    RETURN_IF_ERROR(CheckTileTask(executable, task));
    try {
      RunTile(program, task, workspace_, [](const TilePlan::Step&) {});
    } catch (const std::bad_alloc&) {
      return absl::ResourceExhaustedError(absl::StrCat("no memory for a tile of ", task.tile.width,
                                                       "x", task.tile.height, " pixels"));
    }
  }
  return absl::OkStatus();
}

}  // namespace upscaled::cpu
