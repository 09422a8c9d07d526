#include "server/calls/watchdog.h"

#include <gtest/gtest.h>

#include "absl/synchronization/notification.h"

namespace upscaled::server {
namespace {

TEST(WatchdogTest, TellsOfWhatIsLateAndNothingElse) {
  absl::Notification early, late;
  bool dropped = false;
  Timer timer;
  {
    Watchdog watchdog(timer);
    const Watchdog::Id id = watchdog.Watch(absl::ZeroDuration(), [&] { early.Notify(); });
    watchdog.Drop(watchdog.Watch(absl::ZeroDuration(), [&] { dropped = true; }));
    watchdog.Watch(absl::Hours(1), [&] { dropped = true; });
    early.WaitForNotification();
    watchdog.Drop(id);  // too late, and no harm
    watchdog.Watch(absl::Milliseconds(1), [&] { late.Notify(); });
    late.WaitForNotification();
  }
  EXPECT_FALSE(dropped);
}

}  // namespace
}  // namespace upscaled::server
