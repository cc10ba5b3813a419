/// <reference types="vite/client" />

/** Whether the page that shows every component is there. */
declare const __GALLERY__: boolean;
