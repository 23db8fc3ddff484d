"""What a model, a person or a program is given.

projection   what of a grain is printed: `project`
elements, plain, prose, toon, structured, yaml_text     how it is printed
formats      the seven formats: `recall_text`, `assembled_text`, `line_of`, `values_text`
printers, template_render                               as a format, or through a template
counter      how large a text is for a model
"""
