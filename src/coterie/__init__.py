"""Personalised decentralised deep learning."""
