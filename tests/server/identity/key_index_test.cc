#include "server/identity/key_index.h"

#include <tuple>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace upscaled::server {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

KeyHash HashNumber(int number) { return HashOf(absl::StrCat(number)); }

// The keys of the numbers from 0 on.
KeyTable Keys(int count) {
  KeyTable keys;
  for (int i = 0; i < count; ++i) {
    keys[HashNumber(i)].principal.name = absl::StrCat(i);
  }
  return keys;
}

TEST(KeyIndexTest, FindsEachKeyAndNoOther) {
  for (const int count : {1, 2, 3, 4, 5, 7, 8, 9, 100}) {
    SCOPED_TRACE(count);
    const KeyTable keys = Keys(count);
    const auto index = KeyIndex::Make(keys);
    ASSERT_TRUE(index.ok()) << index.status();
    for (int i = 0; i < count; ++i) {
      const KeyIndex::Place place = (*index)->Find(HashNumber(i), kNow);
      EXPECT_TRUE(place.is_its);
      EXPECT_EQ(place.entry, &keys.at(HashNumber(i)));
    }
    for (int i = count; i < count + 200; ++i) {
      const KeyIndex::Place place = (*index)->Find(HashNumber(i), kNow);
      EXPECT_FALSE(place.is_its);
      EXPECT_NE(place.entry, nullptr) << "there is always one to read";
    }
  }
}

// Otherwise an attacker could choose keys with the way to a stored hash, bit by bit.
TEST(KeyIndexTest, UnknownKeysStandBesideOthersInEachIndex) {
  const KeyTable keys = Keys(100);
  const auto one = KeyIndex::Make(keys), other = KeyIndex::Make(keys);
  int alike = 0;
  for (int i = 100; i < 200; ++i) {
    const KeyHash unknown = HashNumber(i);
    if ((*one)->Find(unknown, kNow).entry == (*other)->Find(unknown, kNow).entry) ++alike;
  }
  EXPECT_LT(alike, 50);
}

TEST(KeyIndexTest, KnowsWhoseTimeItIs) {
  KeyTable keys = Keys(3);
  keys[HashNumber(0)].expires = kNow;
  keys[HashNumber(1)].not_before = kNow + absl::Nanoseconds(1);
  keys[HashNumber(2)].not_before = kNow;
  keys[HashNumber(2)].expires = kNow + absl::Nanoseconds(1);
  const auto index = KeyIndex::Make(keys);
  for (const auto& [number, expired, early] :
       {std::tuple{0, true, false}, {1, false, true}, {2, false, false}}) {
    const KeyIndex::Place place = (*index)->Find(HashNumber(number), kNow);
    EXPECT_TRUE(place.is_its) << number;
    EXPECT_EQ(place.expired, expired) << number;
    EXPECT_EQ(place.early, early) << number;
  }
}

TEST(KeyIndexTest, MayBeEmpty) {
  const KeyTable keys;
  const KeyIndex::Place place = (*KeyIndex::Make(keys))->Find(HashNumber(0), kNow);
  EXPECT_EQ(place.entry, nullptr);
  EXPECT_FALSE(place.is_its);
}

}  // namespace
}  // namespace upscaled::server
