"""Networks of public packages, with random weights, for `transfuse bench --models bench/networks.py`: functions that return a module and
its inputs. What is not installed is skipped by name (torchvision, torchaudio, transformers, diffusers, monai, segmentation_models_pytorch,
timm, dynamic_network_architectures)."""

import torch
from torch import nn

rand = torch.randn
DEVICE = "cuda"  # the bench writes here where it runs them


def sized(on_gpu, on_cpu):
    """A size that keeps a GPU busy, and one that two CPU cores have done within a second."""
    return on_gpu if DEVICE == "cuda" else on_cpu


# Vocoders, codecs, separation


def speecht5_hifigan():
    from transformers import SpeechT5HifiGan, SpeechT5HifiGanConfig

    return SpeechT5HifiGan(SpeechT5HifiGanConfig()), (rand(*sized((8, 200), (1, 40)), 80),)


def hifigan_stream():
    """A piece of one utterance."""
    from transformers import SpeechT5HifiGan, SpeechT5HifiGanConfig

    rates = dict(upsample_rates=[8, 8, 2, 2], upsample_kernel_sizes=[16, 16, 4, 4])
    return SpeechT5HifiGan(SpeechT5HifiGanConfig(**rates, upsample_initial_channel=512)), (rand(1, 32, 80),)


def vits_decoder():
    from transformers import VitsConfig
    from transformers.models.vits.modeling_vits import VitsHifiGan

    config = VitsConfig()
    return VitsHifiGan(config), (rand(sized(4, 1), config.flow_size, sized(128, 32)),)


def seamless_vocoder():
    from transformers import SeamlessM4TConfig
    from transformers.models.seamless_m4t.modeling_seamless_m4t import SeamlessM4THifiGan

    config = SeamlessM4TConfig()
    channels = config.unit_embed_dim + config.lang_embed_dim + config.spkr_embed_dim
    return SeamlessM4THifiGan(config), (rand(sized(4, 1), channels, sized(100, 20)),)


def univnet():
    from transformers import UnivNetConfig, UnivNetModel

    config = UnivNetConfig()
    batch, length = sized((4, 120), (1, 60))
    features, noise = rand(batch, length, config.num_mel_bins), rand(batch, length, config.model_in_channels)
    return UnivNetModel(config), {"input_features": features, "noise_sequence": noise, "return_dict": False}


def bigvgan():
    from transformers.models.qwen2_5_omni.configuration_qwen2_5_omni import Qwen2_5OmniBigVGANConfig
    from transformers.models.qwen2_5_omni.modeling_qwen2_5_omni import Qwen2_5OmniToken2WavBigVGANModel

    config = Qwen2_5OmniBigVGANConfig(upsample_initial_channel=sized(1536, 384))
    return Qwen2_5OmniToken2WavBigVGANModel(config), (rand(sized(2, 1), config.mel_dim, sized(64, 16)),)


def ltx_vocoder():
    from diffusers.pipelines.ltx2.vocoder import LTX2Vocoder

    return LTX2Vocoder(), (rand(1, 2, sized(100, 10), 64),)


def encodec_decoder():
    from transformers import EncodecConfig, EncodecModel

    return EncodecModel(EncodecConfig()).decoder, (rand(sized(4, 1), 128, sized(300, 75)),)


def dac_decoder():
    from transformers import DacConfig, DacModel

    config = DacConfig()
    return DacModel(config).decoder, (rand(sized(2, 1), config.hidden_size, sized(172, 20)),)


def mimi_decoder():
    from transformers import MimiConfig, MimiModel

    config = MimiConfig(num_hidden_layers=2, intermediate_size=512)
    return MimiModel(config).decoder, (rand(sized(4, 1), config.hidden_size, sized(100, 25)),)


def oobleck_decoder():
    from diffusers import AutoencoderOobleck

    return AutoencoderOobleck().decoder, (rand(1, 64, sized(108, 10)),)


def conv_tasnet():
    from torchaudio.models import conv_tasnet_base

    return conv_tasnet_base(2), (0.1 * rand(sized(4, 1), 1, sized(32000, 8000)),)


def hybrid_demucs():
    from torchaudio.models import HDemucs

    model = HDemucs(sources=["drums", "bass", "other", "vocals"], nfft=2048, depth=5, channels=sized(32, 16))
    return model, (0.1 * rand(sized(2, 1), 2, sized(88200, 22050)),)


# Masks, depth, poses, text


def sam_mask_decoder():
    from transformers import SamMaskDecoderConfig
    from transformers.models.sam.modeling_sam import SamMaskDecoder

    image = {"image_embeddings": rand(1, 256, 64, 64), "image_positional_embeddings": rand(1, 256, 64, 64)}
    prompts = {
        "sparse_prompt_embeddings": rand(1, sized(16, 1), 2, 256),
        "dense_prompt_embeddings": rand(1, 256, 64, 64),
    }
    return SamMaskDecoder(SamMaskDecoderConfig()), {**image, **prompts, "multimask_output": True}


def sam2_mask_decoder():
    from transformers.models.sam2.configuration_sam2 import Sam2MaskDecoderConfig
    from transformers.models.sam2.modeling_sam2 import Sam2MaskDecoder

    image = {"image_embeddings": rand(1, 256, 64, 64), "image_positional_embeddings": rand(1, 256, 64, 64)}
    image["high_resolution_features"] = [rand(1, 32, 256, 256), rand(1, 64, 128, 128)]
    points = sized(16, 1)
    prompts = {"sparse_prompt_embeddings": rand(1, points, 2, 256), "dense_prompt_embeddings": rand(1, 256, 64, 64)}
    return Sam2MaskDecoder(Sam2MaskDecoderConfig()), {**image, **prompts, "multimask_output": True}


def dpt_depth():
    from transformers import DPTConfig, DPTForDepthEstimation

    vision = dict(hidden_size=384, num_hidden_layers=12, num_attention_heads=6, intermediate_size=1536, image_size=384)
    neck = dict(neck_hidden_sizes=[48, 96, 192, 384], fusion_hidden_size=64, readout_type="project")
    return DPTForDepthEstimation(DPTConfig(**vision, **neck)), (rand(sized(8, 1), 3, 384, 384),)


def depth_anything():
    from transformers import DepthAnythingConfig, DepthAnythingForDepthEstimation, Dinov2Config

    shape = dict(hidden_size=384, num_hidden_layers=12, num_attention_heads=6, image_size=518, patch_size=14)
    taken = dict(out_indices=[3, 6, 9, 12], reshape_hidden_states=False, apply_layernorm=True)
    backbone = Dinov2Config(**shape, **taken)
    return DepthAnythingForDepthEstimation(DepthAnythingConfig(backbone_config=backbone)), (
        rand(sized(4, 1), 3, *[sized(518, 252)] * 2),
    )


def smp_dpt():
    import segmentation_models_pytorch as smp

    model = smp.DPT("tu-vit_small_patch16_224", encoder_weights=None, classes=3)
    return model, (rand(sized(8, 1), 3, 224, 224),)


def vitpose():
    from transformers import VitPoseBackboneConfig, VitPoseConfig, VitPoseForPoseEstimation

    backbone = VitPoseBackboneConfig(hidden_size=384, num_hidden_layers=12, num_attention_heads=6, out_indices=[12])
    config = VitPoseConfig(backbone_config=backbone, num_labels=17, use_simple_decoder=False)
    return VitPoseForPoseEstimation(config), (rand(sized(16, 1), 3, 256, 192),)


def pose_resnet():
    """Xiao et al. 2018"""
    from torchvision.models import resnet18

    up = [
        m
        for i in (512, 256, 256)
        for m in (nn.ConvTranspose2d(i, 256, 4, 2, 1, bias=False), nn.BatchNorm2d(256), nn.ReLU())
    ]
    backbone = list(resnet18().children())[:-2]
    return nn.Sequential(*backbone, *up, nn.Conv2d(256, 17, 1)), (rand(sized(16, 1), 3, 256, 192),)


def maskrcnn_mask_head():
    from torchvision.models.detection.mask_rcnn import MaskRCNNHeads, MaskRCNNPredictor

    return nn.Sequential(MaskRCNNHeads(256, (256,) * 4, 1), MaskRCNNPredictor(256, 256, 91)), (
        rand(sized(100, 8), 256, 14, 14),
    )


def keypointrcnn_head():
    from torchvision.models.detection.keypoint_rcnn import KeypointRCNNHeads, KeypointRCNNPredictor

    return nn.Sequential(KeypointRCNNHeads(256, (512,) * 8), KeypointRCNNPredictor(512, 17)), (
        rand(sized(64, 1), 256, 14, 14),
    )


def text_detection_head():
    from transformers import PPOCRV5ServerDetConfig
    from transformers.models.pp_ocrv5_server_det.modeling_pp_ocrv5_server_det import PPOCRV5ServerDetSegmentationHead

    config = PPOCRV5ServerDetConfig(kernel_list=[3, 2, 2])
    return PPOCRV5ServerDetSegmentationHead(config), (
        rand(sized(4, 1), config.neck_out_channels, *sized((160, 240), (80, 80))),
    )


def beit_upernet():
    from transformers import BeitConfig, BeitForSemanticSegmentation

    shape = dict(
        image_size=224, hidden_size=sized(768, 192), num_attention_heads=12, intermediate_size=sized(3072, 768)
    )
    config = BeitConfig(**shape, num_hidden_layers=12, out_indices=[3, 5, 7, 11], use_auxiliary_head=False)
    return BeitForSemanticSegmentation(config), (rand(sized(8, 1), 3, 224, 224),)


def eomt():
    """A mask for each query, out of a plain vision transformer."""
    from transformers import EomtConfig, EomtForUniversalSegmentation

    shape = dict(image_size=sized(640, 224), hidden_size=384, num_attention_heads=6)
    config = EomtConfig(**shape, num_hidden_layers=12, num_blocks=4, num_queries=100)
    return EomtForUniversalSegmentation(config), (rand(sized(4, 1), 3, *[sized(640, 224)] * 2),)


class PillarNeck(nn.Module):
    """Lang et al. 2019: maps of three resolutions brought to the finest one."""

    def __init__(self):
        super().__init__()
        levels = [(64, 1), (128, 2), (256, 4)]
        up = [nn.ConvTranspose2d(i, 128, s, s, bias=False) for i, s in levels]
        self.up = nn.ModuleList([nn.Sequential(m, nn.BatchNorm2d(128), nn.ReLU()) for m in up])

    def forward(self, *maps):
        return torch.cat([up(x) for up, x in zip(self.up, maps)], 1)


def pillar_neck():
    batch, height, width = sized((2, 248, 216), (1, 124, 108))
    return PillarNeck(), tuple([rand(batch, 64 << i, height >> i, width >> i) for i in range(3)])


# Segmentation of images and volumes


def linknet():
    import segmentation_models_pytorch as smp

    return smp.Linknet("resnet18", encoder_weights=None, classes=3), (rand(sized(8, 1), 3, 256, 256),)


class UNet(nn.Module):
    """Ronneberger et al. 2015, padded"""

    def __init__(self, widths: tuple[int, ...] = (64, 128, 256, 512, 1024)):
        super().__init__()

        def two(i: int, o: int) -> nn.Module:
            first, second = nn.Conv2d(i, o, 3, padding=1, bias=False), nn.Conv2d(o, o, 3, padding=1, bias=False)
            return nn.Sequential(first, nn.BatchNorm2d(o), nn.ReLU(True), second, nn.BatchNorm2d(o), nn.ReLU(True))

        self.downs = nn.ModuleList([two(i, o) for i, o in zip((3, *widths), widths)])
        self.ups = nn.ModuleList([nn.ConvTranspose2d(2 * o, o, 2, 2) for o in widths[-2::-1]])
        self.joined = nn.ModuleList([two(2 * o, o) for o in widths[-2::-1]])
        self.pool, self.head = nn.MaxPool2d(2), nn.Conv2d(widths[0], 2, 1)

    def forward(self, x):
        skips = []
        for i, down in enumerate(self.downs):
            x = down(self.pool(x) if i else x)
            skips.append(x)
        skips.pop()
        for up, two in zip(self.ups, self.joined):
            x = two(torch.cat([skips.pop(), up(x)], 1))
        return self.head(x)


def unet():
    return UNet(), (rand(sized(4, 1), 3, *[sized(256, 128)] * 2),)


def monai_unet2d():
    from monai.networks.nets import UNet

    return UNet(2, 1, 2, (32, 64, 128, 256, 512), (2, 2, 2, 2), num_res_units=2), (rand(sized(16, 2), 1, 256, 256),)


def monai_attention_unet():
    from monai.networks.nets import AttentionUnet

    return AttentionUnet(2, 1, 2, (32, 64, 128, 256), (2, 2, 2)), (rand(sized(8, 1), 1, 256, 256),)


def monai_unetpp():
    from monai.networks.nets import BasicUNetPlusPlus

    return BasicUNetPlusPlus(2, 1, 2), (rand(sized(8, 1), 1, *[sized(256, 128)] * 2),)


def monai_unet3d():
    from monai.networks.nets import UNet

    return UNet(3, 1, 2, (16, 32, 64, 128, 256), (2, 2, 2, 2), num_res_units=2), (
        rand(sized(2, 1), 1, *[sized(96, 64)] * 3),
    )


def monai_dynunet():
    from monai.networks.nets import DynUNet

    model = DynUNet(3, 1, 3, [3] * 5, [1, 2, 2, 2, 2], [2] * 4, filters=[16, 32, 64, 128, 256], res_block=True)
    return model, (rand(sized(2, 1), 1, *[sized(96, 48)] * 3),)


def monai_segresnet():
    from monai.networks.nets import SegResNet

    return SegResNet(3, 16, 1, 3, upsample_mode="deconv"), (rand(sized(2, 1), 1, *[sized(96, 48)] * 3),)


def monai_vnet():
    from monai.networks.nets import VNet

    return VNet(3, 1, 2), (rand(1, 1, *[sized(96, 32)] * 3),)


def monai_unetr():
    from monai.networks.nets import UNETR

    size = (sized(96, 48),) * 3
    return UNETR(1, 14, size, feature_size=16, hidden_size=384, mlp_dim=1536, num_heads=6), (
        rand(sized(2, 1), 1, *size),
    )


def monai_swinunetr():
    from monai.networks.nets import SwinUNETR

    return SwinUNETR(in_channels=1, out_channels=14, feature_size=sized(24, 12)), (
        rand(sized(2, 1), 1, *[sized(96, 64)] * 3),
    )


def mednext():
    from monai.networks.nets import MedNeXt

    blocks = dict(blocks_down=(2, 2, 2), blocks_bottleneck=2, blocks_up=(2, 2, 2))
    ratios = dict(encoder_expansion_ratio=2, decoder_expansion_ratio=2, bottleneck_expansion_ratio=2)
    model = MedNeXt(spatial_dims=3, init_filters=16, in_channels=1, out_channels=2, **blocks, **ratios)
    return model, (rand(sized(2, 1), 1, *[sized(96, 32)] * 3),)


def nnunet():
    from dynamic_network_architectures.architectures.unet import PlainConvUNet

    strides, kernels = [[1, 1, 1], [1, 2, 2], [2, 2, 2], [2, 2, 2], [2, 2, 2]], [[1, 3, 3]] + [[3, 3, 3]] * 4
    depth = dict(n_conv_per_stage=2, n_conv_per_stage_decoder=2, num_classes=3, deep_supervision=False)
    norm = dict(norm_op=nn.InstanceNorm3d, norm_op_kwargs={"affine": True}, nonlin=nn.LeakyReLU, conv_bias=True)
    model = PlainConvUNet(1, 5, [32, 64, 128, 256, 320], nn.Conv3d, kernels, strides, **depth, **norm)
    return model, (rand(sized(2, 1), 1, *sized((48, 128, 128), (16, 64, 64))),)


# Generators, diffusion, super-resolution


def dcgan():
    """Radford et al. 2015"""

    def up(i: int, o: int, stride: int, padding: int) -> list[nn.Module]:
        return [nn.ConvTranspose2d(i, o, 4, stride, padding, bias=False), nn.BatchNorm2d(o), nn.ReLU(True)]

    deep = [*up(100, 512, 1, 0), *up(512, 256, 2, 1), *up(256, 128, 2, 1), *up(128, 64, 2, 1)]
    return nn.Sequential(*deep, nn.ConvTranspose2d(64, 3, 4, 2, 1, bias=False), nn.Tanh()), (
        rand(sized(128, 8), 100, 1, 1),
    )


class Pix2Pix(nn.Module):
    """Isola et al. 2017: each block halves, calls the next, doubles, and is joined with what it was given."""

    def __init__(self, outer: int, inner: int, next: nn.Module | None = None):
        super().__init__()
        self.next = next
        self.down = nn.Conv2d(outer, inner, 4, 2, 1, bias=False)
        self.norm = nn.BatchNorm2d(inner) if next else nn.Identity()
        up = nn.ConvTranspose2d(2 * inner if next else inner, outer, 4, 2, 1, bias=False)
        self.up = nn.Sequential(nn.ReLU(), up, nn.BatchNorm2d(outer))

    def forward(self, x):
        y = self.norm(self.down(nn.functional.leaky_relu(x, 0.2)))
        return torch.cat([x, self.up(self.next(y) if self.next else y)], 1)


def pix2pix():
    inner = None
    for outer, width in ((512, 512),) * 4 + ((256, 512), (128, 256), (64, 128)):
        inner = Pix2Pix(outer, width, inner)
    ends = nn.Conv2d(3, 64, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(128, 3, 4, 2, 1), nn.Tanh()
    return nn.Sequential(ends[0], inner, *ends[1:]), (rand(sized(4, 1), 3, 256, 256),)


class Residual(nn.Module):
    def __init__(self, *body: nn.Module):
        super().__init__()
        self.body = nn.Sequential(*body)

    def forward(self, x):
        return x + self.body(x)


def cyclegan():
    """Zhu et al. 2017"""

    def wide(i: int, o: int, kernel: int) -> list[nn.Module]:
        return [nn.ReflectionPad2d(kernel // 2), nn.Conv2d(i, o, kernel)]

    def normed(convolution: list[nn.Module], channels: int) -> list[nn.Module]:
        return [*convolution, nn.InstanceNorm2d(channels), nn.ReLU()]

    def block() -> nn.Module:
        return Residual(*normed(wide(256, 256, 3), 256), *wide(256, 256, 3), nn.InstanceNorm2d(256))

    down = [*normed(wide(3, 64, 7), 64), *[m for n in (64, 128) for m in normed([nn.Conv2d(n, 2 * n, 3, 2, 1)], 2 * n)]]
    up = [m for n in (256, 128) for m in normed([nn.ConvTranspose2d(n, n // 2, 3, 2, 1, 1)], n // 2)]
    size = sized((2, 3, 256, 256), (1, 3, 128, 128))
    return nn.Sequential(*down, *[block() for _ in range(9)], *up, *wide(64, 3, 7), nn.Tanh()), (rand(*size),)


def autoencoder_kl_decoder():
    from diffusers import AutoencoderKL

    blocks = dict(down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4)
    model = AutoencoderKL(block_out_channels=(128, 256, 512, 512), layers_per_block=2, latent_channels=4, **blocks)
    return model.decoder, (rand(sized(2, 1), 4, *[sized(64, 16)] * 2),)


def vq_decoder():
    """Würstchen's"""
    from diffusers.pipelines.deprecated.wuerstchen import PaellaVQModel

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = PaellaVQModel()

        def forward(self, latents):
            return self.model.decode(latents, force_not_quantize=True, return_dict=False)[0]

    return Decoder(), (rand(sized(2, 1), 4, *[sized(64, 16)] * 2),)


def diffusion_unet():
    from diffusers import UNet2DConditionModel

    down, up = ("CrossAttnDownBlock2D", "DownBlock2D"), ("UpBlock2D", "CrossAttnUpBlock2D")
    model = UNet2DConditionModel(
        block_out_channels=(160, 320), down_block_types=down, up_block_types=up, cross_attention_dim=320
    )
    inputs = {"sample": rand(sized(4, 1), 4, *[sized(64, 32)] * 2), "timestep": torch.tensor(500)}
    return model, {**inputs, "encoder_hidden_states": rand(sized(4, 1), 77, 320), "return_dict": False}


def back_projection():
    """Haris et al. 2018: what was enlarged is made small again, and its error enlarged once more."""

    class Up(nn.Module):
        def __init__(self, n: int):
            super().__init__()
            self.first, self.second = nn.ConvTranspose2d(n, n, 6, 2, 2), nn.ConvTranspose2d(n, n, 6, 2, 2)
            self.down, self.act = nn.Conv2d(n, n, 6, 2, 2), nn.PReLU()

        def forward(self, x):
            high = self.act(self.first(x))
            return high + self.act(self.second(self.act(self.down(high)) - x))

    def pair() -> list[nn.Module]:
        return [Up(32), nn.Conv2d(32, 32, 6, 2, 2), nn.PReLU()]

    first = [nn.Conv2d(3, 128, 3, padding=1), nn.PReLU(), nn.Conv2d(128, 32, 1), nn.PReLU()]
    return nn.Sequential(*first, *pair(), *pair(), Up(32), nn.Conv2d(32, 3, 3, padding=1)), (
        rand(sized(4, 1), 3, *[sized(128, 48)] * 2),
    )


NETWORKS = {
    made.__name__: made
    for made in (
        speecht5_hifigan, hifigan_stream, vits_decoder, seamless_vocoder, univnet, bigvgan, ltx_vocoder, encodec_decoder, dac_decoder,
        mimi_decoder, oobleck_decoder, conv_tasnet, hybrid_demucs, sam_mask_decoder, sam2_mask_decoder, dpt_depth, depth_anything,
        smp_dpt, vitpose, pose_resnet, maskrcnn_mask_head, keypointrcnn_head, text_detection_head, beit_upernet, eomt, pillar_neck,
        linknet, unet, monai_unet2d, monai_attention_unet, monai_unetpp, monai_unet3d, monai_dynunet, monai_segresnet, monai_vnet,
        monai_unetr, monai_swinunetr, mednext, nnunet, dcgan, pix2pix, cyclegan, autoencoder_kl_decoder, vq_decoder, diffusion_unet,
        back_projection,
    )
}  # fmt: skip
