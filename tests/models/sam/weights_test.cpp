// Weights of Segment Anything in every form in which they are published.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "models/sam/sam_models.h"
#include "support/files.h"
#include "support/tensors.h"

namespace lockstep {
inline namespace v0 {
namespace {

using namespace sam_tests;

void expect_same_state(const Sam& a, const Sam& b) {
  const nn::StateDict expected = b.state_dict();
  ASSERT_EQ(a.state_dict().size(), expected.size());
  for (const auto& [name, tensor] : a.state_dict()) {
    SCOPED_TRACE(name);
    ASSERT_NE(expected.find(name), nullptr);
    EXPECT_BITS_EQ(tensor, *expected.find(name));
  }
}

TEST(SamWeights, AreReadFromCheckpointsAndFromSafetensors) {
  const test::TemporaryFolder folder;
  const std::unique_ptr<Sam> model = tiny_sam();
  const io::TensorMap tensors = model->state_dict();
  io::save_pytorch(folder.path("mobile_sam.pt"), tensors);
  io::save_safetensors(folder.path("mobile_sam.safetensors"), tensors);
  for (const char* name : {"mobile_sam.pt", "mobile_sam.safetensors"}) {
    SCOPED_TRACE(name);
    const auto loaded = Sam::load(tiny_options(64), io::load_weights(folder.path(name)));
    expect_same_state(*loaded, *model);
    EXPECT_FALSE(loaded->training());
  }
}

// Nothing reads the classifier of the image encoder, and conversions leave it out.
TEST(SamWeights, MayLackTheClassifier) {
  const std::unique_ptr<Sam> model = tiny_sam();
  nn::StateDict weights;
  for (const auto& [name, tensor] : model->state_dict()) {
    if (name.find(".head.") == std::string::npos && name.find(".norm_head.") == std::string::npos)
      weights.push_back(name, tensor);
  }
  EXPECT_EQ(weights.size() + 4, model->state_dict().size());
  const auto loaded = Sam::load(tiny_options(64), weights);
  EXPECT_EQ(loaded->embed(sam_picture(30, 20)).features.hash(), model->embed(sam_picture(30, 20)).features.hash());
}

// The names are those of transformers' own SamModel; tools/sam_goldens.py wrote them into the file.
TEST(SamWeights, HaveTheNamesOfTransformersToo) {
  const io::TensorFile file = small_vit_file();
  const nn::StateDict original = small_vit_weights(file.tensors);
  const auto names = nlohmann::json::parse(file.metadata.at("transformers_names"));
  constexpr const char* kOfPrompts = "prompt_encoder.shared_embedding.positional_embedding";
  constexpr const char* kShared = "shared_image_embedding.positional_embedding";
  nn::StateDict renamed;
  nn::StateDict tied;  // as files are that hold shared tensors once
  nn::StateDict both;
  for (const auto& [theirs, ours] : names.items()) {
    const Tensor& tensor = *original.find(ours.get<std::string>());
    renamed.push_back(theirs, tensor);
    both.push_back(theirs, tensor);
    tied.push_back(theirs == kOfPrompts ? kShared : theirs, tensor);
    if (theirs == kOfPrompts) both.push_back(kShared, tensor);
  }
  EXPECT_EQ(renamed.size(), original.size());
  const auto model = Sam::load(small_vit_options(), original);
  for (const nn::StateDict& weights : {renamed, tied, both}) {
    expect_same_state(*Sam::load(small_vit_options(), weights), *model);
  }
  nn::StateDict incomplete;
  for (const auto& [name, tensor] : renamed) {
    if (name != "mask_decoder.upscale_conv1.weight") incomplete.push_back(name, tensor);
  }
  expect_error<ValueError>([&] { Sam::load(small_vit_options(), incomplete); },
                           {"mask_decoder.output_upscaling.0.weight"});
}

TEST(SamWeights, OfOtherNetworksAreRefused) {
  expect_error<ValueError>(
      [] { Sam::load(models::architecture("resnet8-cifar").create(10)->state_dict()); },
      {"Sam::load: these are not the weights of Segment Anything or MobileSAM", "weights_test.cpp"});
  nn::StateDict odd;
  odd.push_back("image_encoder.pos_embed", zeros({1, 8, 8, 32}));
  expect_error<ValueError>([&] { Sam::load(odd); }, {"32 channels", "768"});
  expect_error<ValueError>([] { Sam::load(tiny_sam()->state_dict()); }, {"image_encoder.layers.2.blocks.5"});
  models::SamOptions wider = tiny_options(64);
  wider.decoder.mlp_channels = 32;
  expect_error<ShapeError>([&] { Sam::load(wider, tiny_sam()->state_dict()); },
                           {"mask_decoder.transformer.layers.0.mlp.lin1.weight"});
}

}  // namespace
}  // namespace v0
}  // namespace lockstep
