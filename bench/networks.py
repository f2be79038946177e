"""Networks of public packages, with random weights, for `transfuse bench --models bench/networks.py`: functions that return a module and
its inputs. What is not installed is skipped by name (torchvision, torchaudio, transformers, diffusers, monai, segmentation_models_pytorch,
dynamic_network_architectures)."""

import torch
from torch import nn

rand = torch.randn


def speecht5_hifigan():
    from transformers import SpeechT5HifiGan, SpeechT5HifiGanConfig

    return SpeechT5HifiGan(SpeechT5HifiGanConfig()), (rand(8, 200, 80),)


def hifigan_stream():
    """A piece of one utterance."""
    from transformers import SpeechT5HifiGan, SpeechT5HifiGanConfig

    rates = dict(upsample_rates=[8, 8, 2, 2], upsample_kernel_sizes=[16, 16, 4, 4])
    return SpeechT5HifiGan(SpeechT5HifiGanConfig(**rates, upsample_initial_channel=512)), (rand(1, 32, 80),)


def univnet():
    from transformers import UnivNetConfig, UnivNetModel

    config = UnivNetConfig()
    features, noise = rand(4, 120, config.num_mel_bins), rand(4, 120, config.model_in_channels)
    return UnivNetModel(config), {"input_features": features, "noise_sequence": noise, "return_dict": False}


def encodec_decoder():
    from transformers import EncodecConfig, EncodecModel

    return EncodecModel(EncodecConfig()).decoder, (rand(4, 128, 300),)


def dac_decoder():
    from transformers import DacConfig, DacModel

    config = DacConfig()
    return DacModel(config).decoder, (rand(2, config.hidden_size, 172),)


def sam_mask_decoder():
    from transformers import SamMaskDecoderConfig
    from transformers.models.sam.modeling_sam import SamMaskDecoder

    image = {"image_embeddings": rand(1, 256, 64, 64), "image_positional_embeddings": rand(1, 256, 64, 64)}
    prompts = {"sparse_prompt_embeddings": rand(1, 16, 2, 256), "dense_prompt_embeddings": rand(1, 256, 64, 64)}
    return SamMaskDecoder(SamMaskDecoderConfig()), {**image, **prompts, "multimask_output": True}


def dpt_depth():
    from transformers import DPTConfig, DPTForDepthEstimation

    vision = dict(hidden_size=384, num_hidden_layers=12, num_attention_heads=6, intermediate_size=1536, image_size=384)
    neck = dict(neck_hidden_sizes=[48, 96, 192, 384], fusion_hidden_size=64, readout_type="project")
    return DPTForDepthEstimation(DPTConfig(**vision, **neck)), (rand(8, 3, 384, 384),)


def conv_tasnet():
    from torchaudio.models import conv_tasnet_base

    return conv_tasnet_base(2), (0.1 * rand(4, 1, 32000),)


def maskrcnn_mask_head():
    from torchvision.models.detection.mask_rcnn import MaskRCNNHeads, MaskRCNNPredictor

    return nn.Sequential(MaskRCNNHeads(256, (256,) * 4, 1), MaskRCNNPredictor(256, 256, 91)), (rand(100, 256, 14, 14),)


def monai_unet2d():
    from monai.networks.nets import UNet

    return UNet(2, 1, 2, (32, 64, 128, 256, 512), (2, 2, 2, 2), num_res_units=2), (rand(16, 1, 256, 256),)


def monai_unet3d():
    from monai.networks.nets import UNet

    return UNet(3, 1, 2, (16, 32, 64, 128, 256), (2, 2, 2, 2), num_res_units=2), (rand(2, 1, 96, 96, 96),)


def monai_swinunetr():
    from monai.networks.nets import SwinUNETR

    return SwinUNETR(in_channels=1, out_channels=14, feature_size=24), (rand(2, 1, 96, 96, 96),)


def autoencoder_kl_decoder():
    from diffusers import AutoencoderKL

    blocks = dict(down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4)
    model = AutoencoderKL(block_out_channels=(128, 256, 512, 512), layers_per_block=2, latent_channels=4, **blocks)
    return model.decoder, (rand(2, 4, 64, 64),)


def oobleck_decoder():
    from diffusers import AutoencoderOobleck

    return AutoencoderOobleck().decoder, (rand(1, 64, 108),)


def linknet():
    import segmentation_models_pytorch as smp

    return smp.Linknet("resnet18", encoder_weights=None, classes=3), (rand(8, 3, 256, 256),)


def nnunet():
    from dynamic_network_architectures.architectures.unet import PlainConvUNet

    strides, kernels = [[1, 1, 1], [1, 2, 2], [2, 2, 2], [2, 2, 2], [2, 2, 2]], [[1, 3, 3]] + [[3, 3, 3]] * 4
    depth = dict(n_conv_per_stage=2, n_conv_per_stage_decoder=2, num_classes=3, deep_supervision=False)
    norm = dict(norm_op=nn.InstanceNorm3d, norm_op_kwargs={"affine": True}, nonlin=nn.LeakyReLU, conv_bias=True)
    model = PlainConvUNet(1, 5, [32, 64, 128, 256, 320], nn.Conv3d, kernels, strides, **depth, **norm)
    return model, (rand(2, 1, 48, 128, 128),)


def dcgan():
    """Radford et al. 2015"""

    def up(i: int, o: int, stride: int, padding: int) -> list[nn.Module]:
        return [nn.ConvTranspose2d(i, o, 4, stride, padding, bias=False), nn.BatchNorm2d(o), nn.ReLU(True)]

    deep = [*up(100, 512, 1, 0), *up(512, 256, 2, 1), *up(256, 128, 2, 1), *up(128, 64, 2, 1)]
    return nn.Sequential(*deep, nn.ConvTranspose2d(64, 3, 4, 2, 1, bias=False), nn.Tanh()), (rand(128, 100, 1, 1),)


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
    return UNet(), (rand(4, 3, 256, 256),)


NETWORKS = {
    made.__name__: made
    for made in (
        speecht5_hifigan, hifigan_stream, univnet, encodec_decoder, dac_decoder, sam_mask_decoder, dpt_depth, conv_tasnet,
        maskrcnn_mask_head, monai_unet2d, monai_unet3d, monai_swinunetr, autoencoder_kl_decoder, oobleck_decoder, linknet,
        nnunet, dcgan, unet,
    )
}  # fmt: skip
