"""Published numbers on the UCI regression sets, which the report prints next to ours.

| column | source |
|---|---|
| paper: … | Wu, Xuan and Lu, "Functional stochastic gradient MCMC for Bayesian neural networks", AISTATS 2025 |
| PBP | Hernández-Lobato and Adams, ICML 2015 |
| MC-dropout 2018 | github.com/yaringal/DropoutUncertaintyExps (commit 6eb4497), means of its result files |
| deep ensembles | Lakshminarayanan, Pritzel and Blundell, NeurIPS 2017, five members |
| ensemble of ten, refined VI | github.com/google/uncertainty-baselines, `baselines/uci/README.md` (commit 5299c7e) |
| exact GP, RBF-ARD; NGBoost; 5 MLPs | measured by prototypes of this project on the standard splits 0 to 2 |

Each value of PBP, MC-dropout, deep ensembles, the ensemble of ten and refined VI was compared with its source; PBP and
deep ensembles with table 1 of the NeurIPS paper. The README of MC-dropout rounds three values the other way. The README
of uncertainty-baselines describes its NLL as a sum over the test set, but the values have the size of means per row; it
does not state the splits and has no RMSE.
"""

Table = dict[str, dict[str, float]]  # by data set and method

SOURCES = (
    "Columns of the paper are those printed by Wu, Xuan and Lu (2025); its log-likelihoods are left out, because they "
    "do not fit its RMSEs. PBP, MC-dropout and deep ensembles are as published for the standard splits; the ensemble "
    "of ten and refined VI are those of uncertainty-baselines, which does not state its splits; exact GP, RBF-ARD, "
    "NGBoost and 5 MLPs were measured on splits 0 to 2 only."
)

# RMSE in standardised units, mean over 10 random splits. The order of the rows is the order of every report.
PAPER_RMSE: Table = {
    "yacht": {"SGLD": 1.09, "fSGLD": 0.41, "SGHMC": 1.19, "fSGHMC": 0.25, "FBNN": 1.52, "IFBNN": 1.24},
    "boston": {"SGLD": 1.23, "fSGLD": 0.36, "SGHMC": 1.31, "fSGHMC": 0.24, "FBNN": 1.68, "IFBNN": 1.44},
    "concrete": {"SGLD": 1.10, "fSGLD": 0.45, "SGHMC": 1.15, "fSGHMC": 0.28, "FBNN": 1.27, "IFBNN": 1.07},
    "energy": {"SGLD": 1.04, "fSGLD": 0.24, "SGHMC": 1.07, "fSGHMC": 0.18, "FBNN": 1.35, "IFBNN": 1.19},
    "wine": {"SGLD": 1.08, "fSGLD": 0.71, "SGHMC": 1.14, "fSGHMC": 0.62, "FBNN": 1.53, "IFBNN": 1.21},
    "kin8nm": {"SGLD": 1.20, "fSGLD": 0.74, "SGHMC": 1.26, "fSGHMC": 0.37, "FBNN": 1.45, "IFBNN": 1.12},
    "protein": {"SGLD": 1.12, "fSGLD": 0.84, "SGHMC": 1.21, "fSGHMC": 0.83, "FBNN": 1.50, "IFBNN": 1.16},
}

PBP = "PBP"
MC_DROPOUT = "MC-dropout 2018"
DEEP_ENSEMBLES = "deep ensembles"
ENSEMBLE_OF_TEN = "ensemble of ten"
REFINED_VI = "refined VI"
EXACT_GP = "exact GP, RBF-ARD"
NGBOOST = "NGBoost"
FIVE_MLPS = "5 MLPs"

# In original units on the standard splits.
RMSE: Table = {
    "yacht": {
        PBP: 1.02, MC_DROPOUT: 0.67, DEEP_ENSEMBLES: 1.58,
        EXACT_GP: 0.323, NGBOOST: 0.473, FIVE_MLPS: 0.671,
    },
    "boston": {
        PBP: 3.01, MC_DROPOUT: 2.90, DEEP_ENSEMBLES: 3.28,
        EXACT_GP: 2.23, NGBOOST: 2.45, FIVE_MLPS: 2.22,
    },
    "concrete": {
        PBP: 5.67, MC_DROPOUT: 4.83, DEEP_ENSEMBLES: 6.03,
        EXACT_GP: 4.76, NGBOOST: 5.30, FIVE_MLPS: 4.64,
    },
    "energy": {
        PBP: 1.80, MC_DROPOUT: 0.54, DEEP_ENSEMBLES: 2.09,
        EXACT_GP: 0.508, NGBOOST: 0.508, FIVE_MLPS: 0.491,
    },
    "wine": {
        PBP: 0.64, MC_DROPOUT: 0.62, DEEP_ENSEMBLES: 0.64,
        EXACT_GP: 0.649, NGBOOST: 0.638, FIVE_MLPS: 0.658,
    },
    "kin8nm": {PBP: 0.10, MC_DROPOUT: 0.079, DEEP_ENSEMBLES: 0.09},
    "protein": {PBP: 4.73, MC_DROPOUT: 4.27, DEEP_ENSEMBLES: 4.71},
}  # fmt: skip

LOG_LIKELIHOOD: Table = {
    "yacht": {
        PBP: -1.63, MC_DROPOUT: -1.25, DEEP_ENSEMBLES: -1.18, ENSEMBLE_OF_TEN: -0.73, REFINED_VI: -1.68,
        EXACT_GP: -0.15, NGBOOST: -0.04, FIVE_MLPS: -0.87,
    },
    "boston": {
        PBP: -2.57, MC_DROPOUT: -2.40, DEEP_ENSEMBLES: -2.41, ENSEMBLE_OF_TEN: -6.11, REFINED_VI: -2.94,
        EXACT_GP: -2.21, NGBOOST: -2.69, FIVE_MLPS: -2.28,
    },
    "concrete": {
        PBP: -3.16, MC_DROPOUT: -2.94, DEEP_ENSEMBLES: -3.06, ENSEMBLE_OF_TEN: -3.20, REFINED_VI: -3.08,
        EXACT_GP: -2.96, NGBOOST: -3.02, FIVE_MLPS: -2.98,
    },
    "energy": {
        PBP: -2.04, MC_DROPOUT: -1.21, DEEP_ENSEMBLES: -1.38, ENSEMBLE_OF_TEN: -0.61, REFINED_VI: -0.75,
        EXACT_GP: -0.77, NGBOOST: -0.73, FIVE_MLPS: -0.69,
    },
    "wine": {
        PBP: -0.97, MC_DROPOUT: -0.93, DEEP_ENSEMBLES: -0.94, ENSEMBLE_OF_TEN: -0.97, REFINED_VI: -0.97,
        EXACT_GP: -0.99, NGBOOST: -0.98, FIVE_MLPS: -1.23,
    },
    "kin8nm": {PBP: 0.90, MC_DROPOUT: 1.14, DEEP_ENSEMBLES: 1.20, ENSEMBLE_OF_TEN: 1.17, REFINED_VI: 1.06},
    "protein": {PBP: -2.97, MC_DROPOUT: -2.87, DEEP_ENSEMBLES: -2.83, ENSEMBLE_OF_TEN: -3.12, REFINED_VI: -2.92},
}  # fmt: skip
