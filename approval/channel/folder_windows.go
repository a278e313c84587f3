package channel

import "errors"

func openFolder(string, bool) (*folder, error) { return nil, errors.ErrUnsupported }

func (f *folder) protect(string) error { return errors.ErrUnsupported }

func (f *folder) rename(string, string) error { return errors.ErrUnsupported }

func (f *folder) remove(string) error { return errors.ErrUnsupported }
