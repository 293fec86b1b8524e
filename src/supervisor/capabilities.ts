/**
 * The capabilities that a package manager needs if a workspace has several user ids: CHOWN, DAC_OVERRIDE, FOWNER, SETGID, SETUID.
 */
export const PACKAGE_CAPABILITIES = 0b1100_1011n
