// IPTC's information interchange model as photographs carry it. Private to engine/image.
#pragma once

#include <string>
#include <string_view>

namespace upscaled {

// The data sets in Photoshop's image resources ("8BIM" ...), "" without data sets. Sets `others`
// when there are further resources.
std::string IptcOfResources(std::string_view resources, bool& others);

// The reverse: image resources with only the data sets.
std::string ResourcesOfIptc(std::string_view iptc);

// Takes out the data sets about a place. False: `iptc` is damaged.
bool StripIptcLocation(std::string& iptc);

}  // namespace upscaled
