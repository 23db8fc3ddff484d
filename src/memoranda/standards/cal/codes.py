"""The stable error codes of CAL 1.0.

The codes are the specification's, and so are most names from E040 on. Where it only describes a code, the name is
ours.
"""

from __future__ import annotations

from typing import Final

ERRORS: Final = {
    f"CAL-{code}": meaning
    for code, meaning in {
        "E001": "QueryTooLong",
        "E002": "UnexpectedToken",
        "E003": "UnknownGrainType",
        "E004": "UnknownField",
        "E005": "UnterminatedString",
        "E006": "InvalidNumber",
        "E007": "SubqueryTooDeep",
        "E008": "UnboundParameter",
        "E009": "DuplicateParameter",
        "E010": "LimitExceeded",
        "E011": "InSetTooLarge",
        "E012": "PipelineTooLong",
        "E013": "TooManySetOperands",
        "E014": "EmptyQuery",
        "E015": "InvalidHash",
        "E016": "ReasonTooLong",
        "E017": "UnknownEvolveField",
        "E018": "MissingReason",
        "E019": "MissingSet",
        "E020": "IncompatibleComparison",
        "E021": "PipelineTypeMismatch",
        "E022": "ExtractorNeedsBeliefs",
        "E030": "BudgetExceeded",
        "E031": "QueryTimeout",
        "E040": "SupersessionConflict",
        "E041": "NoPreviousVersion",
        "E042": "GrainTypeNotEvolvable",
        "E043": "WriteQuotaExceeded",
        "E044": "Tier1NotEnabled",
        "E045": "NamespaceMismatch",
        "E046": "TargetNotFound",
        "E050": "MissingRequiredField",
        "E051": "GrainTypeNotAddable",
        "E052": "AddQuotaExceeded",
        "E060": "AmbiguousShortcut or FieldNotOnGrainType",
        "E061": "TypeFieldWithoutType",
        "E062": "InvalidActionPhase",
        "E063": "InvalidGoalState",
        "E064": "InvalidConsentAction",
        "E065": "InvalidRecallPriority",
        "E066": "InvalidEpistemicStatus",
        "E070": "InvalidUTF8",
        "E071": "BidiOverrideRejected",
        "E075": "AssembleTimeout",
        "E076": "AllSourcesFailed",
        "E077": "InvalidStreamOption",
        "E078": "ChunkSizeOutOfRange",
        "E079": "StreamNotSupported",
        "E080": "GrainFormatError",
        "E081": "StreamReconnectExpired",
        "E082": "AssemblyCancelled",
        "E085": "TemplateNotFound",
        "E086": "CannotExtendData",
        "E087": "CannotExtendCustom",
        "E088": "DuplicateTemplateName",
        "E089": "TooManyTemplates",
        "E090": "UnknownTemplateVariable",
        "E091": "UnbalancedTemplateSection",
        "E092": "TemplateTooLarge",
        "E093": "TemplateNestingTooDeep",
        "E094": "InvalidTemplateSyntax",
        "E095": "DuplicateSection",
        "E096": "ConflictingElementSections",
        "E100": "UnsupportedVersion",
    }.items()
}

# E060 stands for two mistakes; the `reason` of the error is one of these.
AMBIGUOUS_SHORTCUT: Final = "ambiguous_shortcut"
FIELD_NOT_ON_TYPE: Final = "field_not_on_grain_type"
