"""Printing of results, for models, people and programs.

projection   the printed content of a grain, before any format: `project`
elements, values, prose, toon, structured               building blocks of the formats
formats      the seven formats: `recall_text`, `assembled_text`, `line_of`, `values_text`
printers, template_render                               printing an ASSEMBLE as a format, or through a template
counter      the size of a text in tokens
"""
