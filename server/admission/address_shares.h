// How much of a resource each client address has taken, so one address cannot take all of it.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

namespace upscaled::server {

// Not thread safe. An empty address is the server's own, without a share.
class AddressShares {
 public:
  explicit AddressShares(int64_t max_per_address) : max_per_address_(max_per_address) {}

  int64_t max_per_address() const { return max_per_address_; }
  int64_t taken(const std::string& address) const;
  // Whether `amount` more fits into the address's share.
  bool Fits(const std::string& address, int64_t amount) const {
    return address.empty() || taken(address) + amount <= max_per_address_;
  }
  void Take(const std::string& address, int64_t amount);
  // Gives back the amount of a Take.
  void Give(const std::string& address, int64_t amount);

 private:
  const int64_t max_per_address_;
  std::unordered_map<std::string, int64_t> taken_;  // no zeros
};

}  // namespace upscaled::server
