;; Emacs with Eglot, as test_emacs.py starts it: FILE, the server's COMMAND as JSON, the text to TYPE, and WAY,
;; which is `capf' for Emacs' own completion, as on C-M-i, or `company' for what company-mode would offer.
;; Prints the item's text where WAY is `company', completes, saves the file.

(require 'eglot)
(require 'json)

(defun session-wait (what happened)
  "Let the server speak until HAPPENED gives something; fail with WHAT after a minute."
  (let ((end (+ (float-time) 60)) found)
    (while (not (setq found (funcall happened)))
      (when (> (float-time) end) (error "waited in vain for %s" what))
      (accept-process-output nil 0.1))
    found))

(defun session-ready ()
  "Whether the server has loaded its model."
  (let ((status (jsonrpc-request (eglot-current-server) :draftline/status (make-hash-table) :timeout 60)))
    (equal (plist-get status :state) "ready")))

(defun session-candidates ()
  "What company-mode would show in its popup."
  (let* ((company-backend 'company-capf)
         (prefix (company-call-backend 'prefix)))
    (company-call-backend 'candidates (if (consp prefix) (car prefix) prefix))))

(defun session-complete ()
  "Complete at point as C-M-i does; whether the text has changed."
  (let ((before (buffer-chars-modified-tick)))
    (completion-at-point)
    (/= before (buffer-chars-modified-tick))))

(pcase-let* ((`(,file ,command ,typed ,way) command-line-args-left))
  (setq command-line-args-left nil
        eglot-connect-timeout 60
        eglot-sync-connect 60
        make-backup-files nil)
  (add-to-list 'eglot-server-programs
               (cons 'python-mode (append (json-parse-string command :array-type 'list) nil)))
  (find-file file)
  (goto-char (point-max))
  (apply #'eglot (eglot--guess-contact))
  (session-wait "the model" #'session-ready)
  (insert typed)
  (if (string= way "capf")
      (session-wait "the completion" #'session-complete)
    (require 'company)
    (company-mode 1)
    (let ((company-backend 'company-capf)
          (item (car (session-wait "the popup's item" #'session-candidates))))
      (princ (substring-no-properties item))
      (delete-region (- (point) (length (company-call-backend 'prefix))) (point))
      (insert item)
      (company-call-backend 'post-completion item)))
  (save-buffer))
