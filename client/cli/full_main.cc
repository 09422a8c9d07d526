// `upscale-full`: every command. `upscale` starts it for its missing ones.
#include <memory>
#include <utility>

#include "client/cli/jobs_command.h"
#include "client/cli/program.h"
#include "client/cli/submit_command.h"
#include "client/cli/video_command.h"
#include "client/spread/spread_client.h"

namespace upscaled::client {
namespace {

constexpr ProgramParts kParts = {
    .video = AddVideoCommand,
    .submit = AddSubmitCommand,
    .jobs = AddJobsCommand,
    .spread = [](std::unique_ptr<UpscaleClient> client,
                 const SpreadOptions& options) -> std::unique_ptr<Service> {
      return std::make_unique<SpreadClient>(std::move(client), options);
    },
};

}  // namespace
}  // namespace upscaled::client

int main(int argc, char** argv) {
  return upscaled::client::RunProgram({argv + 1, argv + argc}, upscaled::client::kParts);
}
