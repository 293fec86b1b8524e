import { FAULTS_FILE_VARIABLE, watchAnswers } from './answer-check.ts'

/** Loaded by `--import` into programs that tests start. */
const faultsFile = process.env[FAULTS_FILE_VARIABLE]
if (faultsFile !== undefined) watchAnswers(faultsFile)
