# The tests of the Clang build with AddressSanitizer and UndefinedBehaviorSanitizer, and which of them are for `make soak`.
# shellcheck shell=bash
# shellcheck source=scripts/test_stages/suites.sh
source scripts/test_stages/suites.sh

# Sanitized code is 2 to 20 times slower, so the tests that read real models or take minutes so (processes that wait for each
# other until a deadline, whole trainings by the command, kernels of every form at every size), repeat the whole of PyTorch's
# cases or call NVRTC, which is not sanitized itself, run in the release build only; as does HostMemory, since AddressSanitizer ends a
# program whose operator new finds no memory.
sanitized_never='Exhaustive|Golden|Slow|Nvrtc|CudaTexts|HostMemory|\.[Ss]egment|VisionService|LongTransforms|AStoppedRank|WithoutARank|RowForms|cli\.Train(Ranks)?\.'

# These took two fifths of all, 6 to 140 s each: large sizes of what others do in small, trainings, errors of numbers, planted
# bits, conversations, cases that another device computes, too, and bounds of time and memory, which sanitizers change.
long_tests=(
  agreement.PlantedBit.IsFoundByAShadowAndByComparingRecordings
  agreement.Reports/Incident.HasTheSameBitsEverywhere/conv2d_of_a_large_image
  agreement.Reports/Incident.HasTheSameBitsEverywhere/unfold_of_long_rows
  agreement.Reports/Incident.HasTheSameBitsEverywhere/unfold_of_many_short_rows
  agreement.ShadowOfBlockedAttention.ComparesItsComposition
  backends.CpuContraction.ConvolutionsOfFewRowsAndWideImages
  backends.CpuContraction.ConvolutionsOfManyChannels
  backends.CpuContraction.ConvolutionsWhoseTermsWalkBackwards
  backends.CpuFourier.LongLines
  backends.CpuScan.LongRowsOnEveryAxis
  backends.GpuRender.CodesOfManyRowsAreMultipliedByWarpgroupsWhereTheDeviceHasThem
  backends.PackedContraction.ManyLongBlocksSideBySide
  cli.AutocastOps.OnlyListedOpsFollow
  cli.Finetune.TeachesAnAdapterAndMergesIt
  cli.RecordedCases.OwnCasesPassOnTheReference
  cli.RowInvariance.OfEveryOp
  cli.Transcribe.WritesTextSubtitlesAndJson
  cli.WrongArguments.MoreOfThem
  graph.AttentionBlocks.PrefillOfLongKeys
  graph.Packed.EveryEncodingHasTheBitsOfItsElements
  graph.Q8Numerics.LongColumnsAreTheSameEverywhere
  graph.RandomGraphs.MoreOfThem
  graph.TinySums.SumsOfSquaresInRowsAndColumns
  io.MalformedSafetensors.HugeHeadersCostBoundedTimeAndMemory
  io.NumPy.UnpackingTakesNoMoreThanWhatIsUnpacked
  kernels.F32/MathFunction.StaysWithinItsBound/erf
  kernels.F32/MathFunction.StaysWithinItsBound/sigmoid
  linalg.Linalg.QrIsOrthogonalAndGivesTheMatrix
  linalg.Linalg.SolutionsHaveSmallResiduals
  parallel.ShardedTraining.BucketsDoNotMatter
  parallel.ShardedTraining.ScaledLossesToo
  server.LanguageService.CallsFunctions
  server.LanguageService.PromptsThatBeginAlikeAreReadOnceAndAnsweredAlike
  server.LanguageService.ThoughtsThatWereBegunEndBeforeAForm
  text.ChatTemplate.LongLoopsEnd
  text.Gbnf.NestsAsDeepAsTheTextDoes
  train.BlockedTraining.BeginsAsOnTheReference
  train.BlockedTraining.HasTheSameWeightsAfterTwoHundredSteps
  train.FitOnRanks.ResNetAndAnotherNumberOfRanksAfterAnEpoch
)
sanitized_long=$(IFS="|" && echo "^(${long_tests[*]//./\\.})\$")

# run_sanitized ARGUMENTS: of ctest, quoted.
run_sanitized() {
  build fuzz || return
  # Allocations that cannot be are errors that tests ask for, not reasons to stop. What a report says of who allocated is ten
  # calls: to find and keep thirty at each allocation took a tenth of the time.
  launch_with env UBSAN_OPTIONS=print_stacktrace=1 ASAN_OPTIONS=allocator_may_return_null=1:malloc_context_size=10 \
    LSAN_OPTIONS=suppressions="$PWD/scripts/leaks.supp":print_suppressions=0
  eval "run_in_suites fuzz $1"
}
