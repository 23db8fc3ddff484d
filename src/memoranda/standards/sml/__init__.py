"""SML 1.0, the Semantic Markup Language of OMS 1.3: the form in which a model reads memories.

    render       elements, their envelope, and the protection against forged ones

This package renders markup only. CAL's content projection maps grains to elements and attributes.
"""
