// The cards of bare files as they were when these were last read: unchanged files need not be read
// again for a listing.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "engine/model/repository.h"

namespace upscaled {

// Thread-compatible.
class BareFiles {
 public:
  // `state`: the file's and its card's. Null: it is not known, or has changed.
  const ModelCard* Find(const std::filesystem::path& file, const std::string& state);
  void Add(const std::filesystem::path& file, std::string state, const ModelCard& card);
  // Forgets entries neither found nor added since the last time.
  void Prune();

 private:
  struct Known {
    std::string state;
    ModelCard card;
    bool listed = true;
  };
  std::map<std::filesystem::path, Known> known_;
};

}  // namespace upscaled
