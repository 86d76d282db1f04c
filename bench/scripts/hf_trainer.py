"""Fine-tunes a BERT classifier with Hugging Face's Trainer, as its example run_glue.py does."""

import logging
import tempfile
from dataclasses import dataclass, field

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    HfArgumentParser,
    Trainer,
    TrainingArguments,
    set_seed,
)

logger = logging.getLogger(__name__)


@dataclass
class ModelArguments:
    hidden_size: int = field(default=256, metadata={"help": "Width of the model."})
    num_hidden_layers: int = field(default=2)
    num_labels: int = field(default=3)


@dataclass
class DataArguments:
    max_seq_length: int = field(default=128)
    train_samples: int = field(default=512)


class SyntheticGlue(Dataset):
    """Sentences of random tokens with random labels, padded to one length."""

    def __init__(self, samples, length, labels, vocabulary):
        generator = np.random.default_rng(0)
        self.tokens = generator.integers(5, vocabulary, (samples, length))
        self.labels = generator.integers(0, labels, samples)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return {
            "input_ids": self.tokens[index],
            "attention_mask": np.ones_like(self.tokens[index]),
            "label": int(self.labels[index]),
        }


def compute_metrics(prediction):
    logits = prediction.predictions
    return {"accuracy": float((np.argmax(logits, axis=1) == prediction.label_ids).mean())}


def main():
    parser = HfArgumentParser((ModelArguments, DataArguments))
    model_args, data_args = parser.parse_args_into_dataclasses()
    logging.basicConfig(level=logging.INFO)
    set_seed(42)
    config = BertConfig(
        hidden_size=model_args.hidden_size,
        num_hidden_layers=model_args.num_hidden_layers,
        num_attention_heads=4,
        intermediate_size=4 * model_args.hidden_size,
        num_labels=model_args.num_labels,
    )
    model = BertForSequenceClassification(config)
    logger.info("parameters: %d", model.num_parameters())
    train = SyntheticGlue(
        data_args.train_samples, data_args.max_seq_length, config.num_labels, config.vocab_size
    )
    evaluation = SyntheticGlue(64, data_args.max_seq_length, config.num_labels, config.vocab_size)
    training_args = TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=32,
        per_device_eval_batch_size=32,
        num_train_epochs=1,
        learning_rate=2e-5,
        bf16=True,
        torch_compile=True,
        optim="adamw_torch_fused",
        dataloader_num_workers=2,
        dataloader_drop_last=True,
        logging_steps=1,
        save_strategy="no",
        eval_strategy="epoch",
        report_to="none",
        disable_tqdm=True,
    )
    trainer = Trainer(
        model=model,
        args=training_args,
        train_dataset=train,
        eval_dataset=evaluation,
        compute_metrics=compute_metrics,
    )
    result = trainer.train()
    metrics = result.metrics
    metrics["train_samples"] = len(train)
    trainer.log_metrics("train", metrics)
    trainer.save_model()
    print(trainer.evaluate())


if __name__ == "__main__":
    main()
