#include "client/cli/forced_exit.h"

#include <unistd.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/cli/errors.h"
#include "client/error_details.h"
#include "client/retry.h"

namespace upscaled::client {

ForcedExit::ForcedExit(absl::Duration timeout, absl::Duration grace) {
  if (timeout == absl::InfiniteDuration()) return;
  waiter_.emplace([=](std::stop_token done) {
    RetryClock::Real().Sleep(timeout + grace, done);
    if (done.stop_requested()) return;
    _exit(Fail(WithOrigin(
        absl::DeadlineExceededError(absl::StrCat("the call went on after its end, which was due ",
                                                 absl::FormatDuration(grace), " ago")),
        ErrorOrigin::kServer)));
  });
}

}  // namespace upscaled::client
