"""Answers of the agent, each declared once: the JSON that it sends, what a command prints, the
metrics and the page docs/answers.md come from these.

The docstring below a field describes it; its type carries unit and metric (`fields`).
"""
