// A server of the command's own, for as long as the command runs.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/temporary_folder.h"
#include "engine/base/unique_fd.h"

namespace upscaled::client {

// The program `upscaled` in the folder of this one, else in PATH. NOT_FOUND.
absl::StatusOr<std::string> FindServerProgram();

// `upscaled` on a Unix socket in a folder only this user can enter. Its log is shown if it ends by
// itself.
class LocalServer {
 public:
  // Starts a server and returns when it is ready. Call this on the main thread: the system ends the
  // server when the starting thread ends, for any reason. The server inherits this process's
  // environment without the API key. Of its UPSCALED_* settings it gets only those of models,
  // devices, memory and limits. NOT_FOUND and similar: no such program. FAILED_PRECONDITION: the
  // server could not start; the error quotes it. CANCELLED: `stop` was requested.
  static absl::StatusOr<std::unique_ptr<LocalServer>> Start(const std::string& program,
                                                            std::stop_token stop);
  // Ends the server and removes the folder.
  ~LocalServer();
  LocalServer(const LocalServer&) = delete;
  LocalServer& operator=(const LocalServer&) = delete;

  // "unix:PATH".
  std::string endpoint() const { return "unix:" + socket_path(); }
  // OK while it runs; FAILED_PRECONDITION with its log once it has ended.
  absl::Status Check();

 private:
  explicit LocalServer(TemporaryFolder folder) : folder_(std::move(folder)) {}
  const std::filesystem::path& folder() const { return folder_.path(); }
  std::string socket_path() const { return folder() / "upscaled.sock"; }
  absl::Status Run(const std::string& program);
  absl::Status AwaitReady(int notifications, std::stop_token stop);
  // Why it has ended, once the system reports its end.
  absl::Status Ended();

  const TemporaryFolder folder_;
  pid_t pid_ = -1;  // -1: does not run
  UniqueFd ended_;  // can be read when the process has ended
  UniqueFd log_;    // of a file without a name
  absl::Status end_;
};

}  // namespace upscaled::client
