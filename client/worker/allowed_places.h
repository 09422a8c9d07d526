// The operator's lists of places for jobs.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/fetch/url_prefix.h"

namespace upscaled::client {

// Every writer of a queue chooses places. These lists bound the places of a worker. Refusals are
// PERMISSION_DENIED and name the place and the worker's flag.
struct AllowedPlaces {
  // Folders of sources and outputs, at any depth; nullopt: all.
  std::optional<std::vector<std::filesystem::path>> folders;
  // Buckets of s3:// places; nullopt: all.
  std::optional<std::vector<std::string>> buckets;
  // Beginnings of http(s) URLs; nullopt: all.
  std::optional<std::vector<server::UrlPrefix>> urls;
  // Hosts that may have private addresses, too. Other URLs reach only public addresses.
  std::vector<server::UrlPrefix> private_urls;

  // `path` without links, though its last parts may not exist yet.
  absl::StatusOr<std::filesystem::path> Resolve(const std::filesystem::path& path) const;
  // A place with s3:// at its beginning.
  absl::Status CheckBucket(const std::string& url) const;
  // Whether an http(s) URL may lead to a private address. User and password in it do not count.
  absl::StatusOr<bool> MayBePrivate(const std::string& url) const;
};

}  // namespace upscaled::client
