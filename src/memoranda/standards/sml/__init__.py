"""SML 1.0, the Semantic Markup Language of OMS 1.3: what a model reads.

    render       elements, the envelope around them, and the protection against forged ones

Markup only: which grain becomes which element with which attributes is CAL's content projection.
"""
