#include "server/rpc/handler_environment.h"

#include <algorithm>

namespace upscaled::server {

int64_t ScratchBytes(const HandlerEnvironment& environment, const Executable& executable,
                     Size tile) {
  const size_t stream = std::max(executable.WorkspaceBytes(tile),
                                 executable.WorkspaceBytes({tile.height, tile.width}));
  return static_cast<int64_t>(stream) * environment.scheduler.concurrency();
}

}  // namespace upscaled::server
