#include "server/fetch/address_kind.h"

#include <arpa/inet.h>

#include <array>
#include <string>

#include "gtest/gtest.h"

namespace upscaled::server {
namespace {

AddressKind Kind(const std::string& text) {
  std::array<uint8_t, 16> bytes;
  if (inet_pton(AF_INET, text.c_str(), bytes.data()) == 1) {
    return KindOfAddress(std::span(bytes).first(4));
  }
  EXPECT_EQ(inet_pton(AF_INET6, text.c_str(), bytes.data()), 1) << text;
  return KindOfAddress(bytes);
}

TEST(AddressKindTest, KnowsPrivateAddressesToTheirEdges) {
  for (const char* text :
       {"10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255", "127.0.0.1",
        "127.255.255.255", "172.16.0.0", "172.31.255.255", "192.168.0.0", "192.168.255.255", "::1",
        "fc00::", "fd12:3456::1", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"}) {
    EXPECT_EQ(Kind(text), AddressKind::kPrivate) << text;
  }
}

TEST(AddressKindTest, KnowsPublicAddressesBesideTheEdges) {
  for (const char* text :
       {"1.0.0.0",         "8.8.8.8",      "9.255.255.255",   "11.0.0.0",
        "100.63.255.255",  "100.128.0.0",  "126.255.255.255", "128.0.0.0",
        "169.253.255.255", "169.255.0.0",  "172.15.255.255",  "172.32.0.0",
        "192.0.1.0",       "192.0.3.0",    "192.88.98.255",   "192.88.100.0",
        "192.167.255.255", "192.169.0.0",  "198.17.255.255",  "198.20.0.0",
        "198.51.99.255",   "198.51.101.0", "203.0.112.255",   "203.0.114.0",
        "223.255.255.255", "2000::",       "2001:200::1",     "2001:4860:4860::8888",
        "2001:db7::1",     "2001:db9::1",  "2003::1",         "2606:4700::1111",
        "3ffe::1",         "3fff:1000::1"}) {
    EXPECT_EQ(Kind(text), AddressKind::kPublic) << text;
  }
}

TEST(AddressKindTest, KnowsWhatIsNeither) {
  for (const char* text :
       {"0.0.0.0",         "0.255.255.255",   "169.254.0.0",   "169.254.169.254",
        "169.254.255.255", "100.100.100.200", "168.63.129.16", "192.0.0.1",
        "192.0.0.170",     "192.0.2.1",       "192.88.99.1",   "198.18.0.0",
        "198.19.255.255",  "198.51.100.1",    "203.0.113.255", "224.0.0.0",
        "224.0.0.251",     "239.255.255.255", "240.0.0.0",     "255.255.255.255"}) {
    EXPECT_EQ(Kind(text), AddressKind::kSpecial) << text;
  }
}

TEST(AddressKindTest, KnowsIpv6ThatLeadsElsewhere) {
  for (const char* text : {"::",
                           "::2",
                           "::127.0.0.1",
                           "::8.8.8.8",
                           "::ffff:127.0.0.1",
                           "::ffff:10.0.0.1",
                           "::ffff:8.8.8.8",
                           "::ffff:0:127.0.0.1",
                           "64:ff9b::7f00:1",
                           "64:ff9b::8.8.8.8",
                           "64:ff9b:1::1",
                           "100::1",
                           "2001::1",
                           "2001:0:7f00:1::",
                           "2001:10::1",
                           "2001:20::1",
                           "2001:1ff:ffff::",
                           "2001:db8::1",
                           "2002:7f00:1::",
                           "2002:808:808::1",
                           "3fff::1",
                           "3fff:fff::",
                           "4000::1",
                           "5f00::1",
                           "fe80::1",
                           "febf::1",
                           "fec0::1",
                           "ff02::1",
                           "ff0e::1",
                           "1::1",
                           "fbff::1",
                           "fe00::1",
                           "1fff:ffff::1"}) {
    EXPECT_EQ(Kind(text), AddressKind::kSpecial) << text;
  }
}

TEST(AddressKindTest, HasNames) {
  EXPECT_EQ(AddressKindName(AddressKind::kPublic), "public");
  EXPECT_EQ(AddressKindName(AddressKind::kSpecial), "special");
}

}  // namespace
}  // namespace upscaled::server
