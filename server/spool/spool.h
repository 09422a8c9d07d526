// A room for bodies, and the thread that writes its files.
#pragma once

#include <memory>
#include <optional>

#include "server/net/io_thread.h"
#include "server/net/io_thread_link.h"
#include "server/spool/body_room.h"

namespace upscaled::server {

// The room may outlive it. Thread safe except Close and destruction.
class Spool {
 public:
  explicit Spool(const BodyRoomOptions& options) : link_(std::make_shared<IoThreadLink>()) {
    if (options.spool_bytes > 0) link_ = std::make_shared<IoThreadLink>(disk_.emplace());
    room_ = std::make_shared<BodyRoom>(options, link_);
  }
  ~Spool() { Close(); }
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  const std::shared_ptr<BodyRoom>& room() const { return room_; }
  // Nothing is written from now on: work for the disk is dropped.
  void Close() { link_->Cut(); }

 private:
  std::optional<IoThread> disk_;  // none: the room has no disk
  std::shared_ptr<IoThreadLink> link_;
  std::shared_ptr<BodyRoom> room_;
};

}  // namespace upscaled::server
