"""Loggers: send the means of each round to TensorBoard, Weights & Biases or MLflow."""

from coterie.loggers.logger import LOGGERS, Logger, make_logger
from coterie.loggers.mlflow_logger import MlflowLogger
from coterie.loggers.tensorboard_logger import TensorBoardLogger
from coterie.loggers.wandb_logger import WandbLogger

__all__ = [
    "LOGGERS",
    "Logger",
    "MlflowLogger",
    "TensorBoardLogger",
    "WandbLogger",
    "make_logger",
]
