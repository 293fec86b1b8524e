/** What the id of every virtual key begins with: it stands where ids of API keys stand. */
export const VIRTUAL_KEY_PREFIX = 'vkey_'
