// Waits for a spool's disk.
#pragma once

#include "absl/synchronization/notification.h"
#include "server/spool/disk_queue.h"

namespace upscaled::server {

// Until all work posted before is done.
inline void AwaitDiskWork(DiskQueue& disk) {
  absl::Notification done;
  disk.Post([&done] { done.Notify(); });
  done.WaitForNotification();
}

}  // namespace upscaled::server
