import './strip-types.mjs'

export const { createSealClient, SealError } = await import('../src/seal-client/seal-client.ts')
