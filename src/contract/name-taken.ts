import { AppError } from './app-error.ts'

/** For a caller that may make new things alone; whose the other is, is not told. */
export const nameTaken = (kind: 'agent' | 'workflow'): AppError =>
  new AppError(
    'ERR_ALREADY_EXISTS',
    `metadata.name: this name is taken, and adding a version needs the right to deploy (tier system and ${kind}:update); choose another name.`,
    { field: 'metadata.name' },
  )
