import { AppError } from './app-error.ts'

/** For a caller that may only create new names. The owner of the existing one is not revealed. */
export const nameTaken = (kind: 'agent' | 'workflow'): AppError =>
  new AppError(
    'ERR_ALREADY_EXISTS',
    `metadata.name: this name is taken, and adding a version needs the right to deploy (tier system and ${kind}:update); choose another name.`,
    { field: 'metadata.name' },
  )
